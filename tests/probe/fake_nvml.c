/* A libnvidia-ml.so.1 that answers from a text file: lines "KEY VALUE", of which the last one for a key counts. The
   file, named by FAKE_NVML, is read at every question, so a test can let a GPU get lost while a job runs.
   Keys: init, count, and per GPU N or MIG instance NmI: N.uuid, N.name, N.total, N.used, N.util, N.power, ...;
    a line "N.xid 79" is an error that the driver reports once; "N.fb.ID" is the field ID of nvmlDeviceGetFieldValues.
    N.err is what every question about N returns, N.err.WHAT what one returns. Values that are missing: not supported.
    Where a file "FAKE_NVML.N" exists, a program plays its work with it: the file has the time of the last change, the time
    up to which work is queued (monotonic seconds), SM activity and coarse utilization until then (percent), and the
    integrals of both up to the last change. Answers are means between two questions then, as real cards give them.
    Where a file "FAKE_NVML.samples" exists, every sample of SM activity adds a character to it, so that a program can
    count in samples, which come late on a busy machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
typedef struct { char id[16]; int gpu, instance; } Device;
typedef struct { double time, previous, sm; int used; } Sample;

static Device devices[16][9];

static int look(const char *id, const char *key, char *value, size_t size) {
    char wanted[64], line[512];
    int found = 0;
    snprintf(wanted, sizeof wanted, "%s%s%s ", id, *id ? "." : "", key);
    FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "", "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, wanted, strlen(wanted))) {
            line[strcspn(line, "\n")] = 0;
            snprintf(value, size, "%s", line + strlen(wanted));
            found = 1;
        }
    fclose(file);
    return found;
}

static int number(const char *id, const char *key, double *value) {
    char text[256];
    if (!look(id, key, text, sizeof text)) return 0;
    *value = atof(text);
    return 1;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* The integrals of SM activity and of utilization up to now, percent x seconds, of a GPU whose phases are played. */
static int played(const char *id, double now, double *sm, double *util) {
    char path[512];
    double time, until, level, busy;
    snprintf(path, sizeof path, "%s.%s", getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "", id);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    int found = fscanf(file, "%lf %lf %lf %lf %lf %lf", &time, &until, &level, &busy, sm, util);
    fclose(file);
    if (found != 6) return 0;
    double seconds = (now < until ? now : until) - time;
    if (seconds > 0) *sm += level * seconds, *util += busy * seconds;
    return 1;
}

/* The error that the script has for a question, or what its missing value means. */
static int ask(Device *device, const char *key, double *value) {
    double code;
    char error[64];
    if (number(device->id, "err", &code)) return (int)code;
    snprintf(error, sizeof error, "err.%s", key);
    if (number(device->id, error, &code)) return (int)code;
    return number(device->id, key, value) ? 0 : NOT_SUPPORTED;
}

int nvmlInitWithFlags(unsigned flags) {
    double code;
    (void)flags;
    return number("", "init", &code) ? (int)code : 0;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case 10: return "Timeout";
    case 15: return "GPU is lost";
    default: return "Unknown Error";
    }
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    double value = 0;
    number("", "count", &value);
    *count = (unsigned)value;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    *device = &devices[index][8];
    snprintf((*device)->id, sizeof (*device)->id, "%u", index);
    (*device)->gpu = (int)index;
    (*device)->instance = -1;
    double code;
    return number((*device)->id, "err.open", &code) ? (int)code : 0;
}
static int text(Device *device, const char *key, char *value, unsigned size) {
    double ignored;
    int code = ask(device, key, &ignored);
    return code ? code : (look(device->id, key, value, size), 0);
}
int nvmlDeviceGetUUID(Device *device, char *value, unsigned size) { return text(device, "uuid", value, size); }
int nvmlDeviceGetName(Device *device, char *value, unsigned size) { return text(device, "name", value, size); }
int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    double value;
    int code = ask(device, "mig", &value);
    *current = *pending = code == 0;
    return code;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { (void)device; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **part) {
    double count = 0;
    number(device->id, "mig", &count);
    if (index >= count) return NOT_FOUND;
    *part = &devices[device->gpu][index];
    snprintf((*part)->id, sizeof (*part)->id, "%dm%u", device->gpu, index);
    (*part)->gpu = device->gpu;
    (*part)->instance = (int)index;
    return 0;
}
int nvmlDeviceGetGpuInstanceId(Device *part, unsigned *id) { *id = (unsigned)part->instance; return 0; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *part, Device **device) {
    *device = &devices[part->gpu][8];
    return 0;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates) {
    static double asked[16], integral[16];
    double value, sm, util, now = seconds();
    int code = ask(device, "util", &value);
    if (!code && played(device->id, now, &sm, &util)) {
        if (now > asked[device->gpu] + 0.01)
            value = asked[device->gpu] ? (util - integral[device->gpu]) / (now - asked[device->gpu]) : 0;
        asked[device->gpu] = now;
        integral[device->gpu] = util;
    }
    if (!code) rates[0] = (unsigned)value, rates[1] = 0;
    return code;
}
int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *info) {
    double total, used;
    int code = ask(device, "total", &total);
    if (!code) code = ask(device, "used", &used);
    /* The first version counts as used what the driver reserves; here 100 bytes. */
    if (!code) info[0] = (unsigned long long)total, info[2] = (unsigned long long)used + 100, info[1] = info[0] - info[2];
    return code;
}
static int gauge(Device *device, const char *key, unsigned *value) {
    double found;
    int code = ask(device, key, &found);
    if (!code) *value = (unsigned)found;
    return code;
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned *value) { return gauge(device, "power", value); }
int nvmlDeviceGetTemperature(Device *device, unsigned s, unsigned *value) { (void)s; return gauge(device, "heat", value); }
int nvmlDeviceGetClockInfo(Device *device, unsigned type, unsigned *value) { (void)type; return gauge(device, "clock", value); }
int nvmlDeviceGetMaxClockInfo(Device *device, unsigned type, unsigned *value) { (void)type; return gauge(device, "max_clock", value); }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *value) { return gauge(device, "power_limit", value); }
int nvmlDeviceGetPcieReplayCounter(Device *device, unsigned *value) { return gauge(device, "replays", value); }
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *value) { return gauge(device, "width", value); }
int nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *value) { return gauge(device, "max_width", value); }
static int reasons(Device *device, unsigned long long *bits) {
    double found;
    int code = ask(device, "throttle", &found);
    if (!code) *bits = (unsigned long long)found;
    return code;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *bits) { return reasons(device, bits); }
int nvmlDeviceGetTotalEccErrors(Device *device, unsigned kind, unsigned counter, unsigned long long *value) {
    double found;
    (void)counter;
    int code = ask(device, kind ? "ecc_uncorrected" : "ecc_corrected", &found);
    if (!code) *value = (unsigned long long)found;
    return code;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *info) {
    memset(info, 0, sizeof *info);
    return text(device, "pci", info->address, sizeof info->address);
}

/* Lines "N.xid NUMBER" are events in the order of the file; each is told once, to whoever registered for GPU N. */
typedef struct { Device *device; unsigned long long type, data; unsigned gi, ci; } Event;
static int told, registered[16];
int nvmlEventSetCreate(int **set) { *set = registered; return number("", "no_events", &(double){0}) ? NOT_SUPPORTED : 0; }
int nvmlEventSetFree(int *set) { (void)set; return 0; }
int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, int *set) {
    set[device->gpu] = types == 8;
    return 0;
}
int nvmlEventSetWait_v2(int *set, Event *event, unsigned timeout) {
    char line[512];
    int seen = 0, gpu, xid, code = 10;
    (void)timeout;
    FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "", "r");
    if (!file) return UNKNOWN;
    while (code && fgets(line, sizeof line, file))
        if (sscanf(line, "%d.xid %d", &gpu, &xid) == 2 && set[gpu] && ++seen > told) {
            event->device = &devices[gpu][8];
            event->data = (unsigned long long)xid;
            told++, code = 0;
        }
    fclose(file);
    return code;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *value) {
    double found;
    int code = ask(device, "energy", &found);
    if (!code) *value = (unsigned long long)found;
    return code;
}

typedef struct { unsigned id, scope; long long time, latency; unsigned type, code; unsigned long long value; } Field;
int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    double rate, code;
    if (number(device->id, "err", &code)) return (int)code;
    for (int i = 0; i < count; i++) {
        /* Traffic is given as a rate, NVLink's in KiB; counters of errors as they are. */
        unsigned id = fields[i].id;
        char key[32];
        snprintf(key, sizeof key, "fb.%u", id);
        const char *name = id == 198 ? "pcie_rx" : id == 197 ? "pcie_tx" : id == 139 ? "nvlink_rx" : id == 138 ? "nvlink_tx" : key;
        fields[i].code = (unsigned)ask(device, name, &rate);
        if (!fields[i].code) fields[i].value = (unsigned long long)(name == key ? rate : rate * seconds());
    }
    return 0;
}

typedef struct { unsigned pid; unsigned long long memory; unsigned gi, ci; } Process;
static int processes(Device *device, unsigned *count, Process *list) {
    char value[256];
    double code;
    unsigned found = 0;
    if (number(device->id, "err", &code) || number(device->id, "err.pids", &code)) return (int)code;
    if (look(device->id, "pids", value, sizeof value))
        for (char *entry = strtok(value, ","); entry; entry = strtok(NULL, ","), found++) {
            if (!list || found >= *count) continue;
            list[found].pid = (unsigned)atol(entry);
            list[found].memory = strchr(entry, ':') ? (unsigned long long)atoll(strchr(entry, ':') + 1) : 0;
        }
    int fits = list ? found <= *count : found == 0;
    *count = found;
    return fits ? 0 : INSUFFICIENT_SIZE;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device *d, unsigned *c, Process *l) { return processes(d, c, l); }

#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *bits) { return reasons(device, bits); }
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *c, Process *l) { return processes(d, c, l); }
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *info) {
    double total, used;
    int code = ask(device, "total", &total);
    if (!code) code = ask(device, "used", &used);
    if (!code) info->total = (unsigned long long)total, info->used = (unsigned long long)used, info->reserved = 100;
    return code;
}

typedef struct { unsigned version, supported; } Support;
int nvmlGpmQueryDeviceSupport(Device *device, Support *support) {
    double value = 0;
    support->supported = number(device->id, "gpm", &value) && value;
    return 0;
}
int nvmlGpmSampleAlloc(Sample **sample) { *sample = calloc(1, sizeof **sample); return 0; }
int nvmlGpmSampleFree(Sample *sample) { free(sample); return 0; }
static void note_sample(void) {
    char path[512];
    snprintf(path, sizeof path, "%s.samples", getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "");
    FILE *file = fopen(path, "r+");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    fputc('.', file);
    fclose(file);
}
static Device *sampled[64];
static double last[64];
static int take(Device *device, Sample *sample) {
    double code;
    if (number(device->id, "err", &code) || number(device->id, "err.gpm", &code)) return (int)code;
    int slot = 0;
    while (sampled[slot] && sampled[slot] != device) slot++;
    sampled[slot] = device;
    sample->previous = last[slot];
    sample->time = last[slot] = seconds();
    sample->used = slot + 1;
    double util;
    if (!played(device->id, sample->time, &sample->sm, &util)) sample->sm = -1;
    note_sample();
    return 0;
}
int nvmlGpmSampleGet(Device *device, Sample *sample) { return take(device, sample); }
int nvmlGpmMigSampleGet(Device *device, unsigned instance, Sample *sample) {
    return take(&devices[device->gpu][instance], sample);
}
typedef struct { unsigned id, code; double value; const char *names[3]; } Metric;
typedef struct { unsigned version, count; Sample *one, *two; Metric metrics[]; } Request;
int nvmlGpmMetricsGet(Request *request) {
    /* The documentation asks for 100 ms between two samples; and they are to be the last two. */
    if (request->version != 1 || request->two->time - request->one->time < 0.1) return UNKNOWN;
    if (request->two->previous != request->one->time && request->two->sm < 0) return UNKNOWN;
    Device *device = sampled[request->two->used - 1];
    for (unsigned i = 0; i < request->count; i++) {
        Metric *metric = &request->metrics[i];
        const char *key = metric->id == 2 ? "sm" : metric->id == 3 ? "occupancy" : metric->id == 5 ? "tensor"
                        : metric->id == 10 ? "dram" : metric->id == 20 ? "gpm_tx" : metric->id == 21 ? "gpm_rx"
                        : metric->id == 60 ? "gpm_nvlink_rx" : metric->id == 61 ? "gpm_nvlink_tx" : "?";
        metric->code = (unsigned)ask(device, key, &metric->value);
        if (metric->id == 2 && request->one->sm >= 0 && request->two->sm >= 0)
            metric->value = (request->two->sm - request->one->sm) / (request->two->time - request->one->time);
    }
    return 0;
}
#endif
