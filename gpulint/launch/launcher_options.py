"""Options of each launcher: flags, those with a value, those of another shape. Others are told by what follows."""

from gpulint.launch.option_parser import grammar

TORCHRUN = grammar("standalone no-python run-path", "nproc-per-node nnodes r t", ends="m module")
ACCELERATE = grammar(
    (
        "multi-gpu cpu tpu ipex use-xpu use-deepspeed use-fsdp "
        "use-megatron-lm use-mps-device no-python same-network quiet q debug"
    ),
    "num-processes num-machines config-file gpu-ids mixed-precision",
    ends="m module",
)
DEEPSPEED = grammar(
    "no-python no-local-rank no-ssh force-multi enable-each-rank-log save-pid bind-cores-to-rank",
    (
        "H i e hostfile include exclude num-gpus "
        "num-nodes master-port master-addr launcher launcher-args ssh-port node-rank"
    ),
    ends="module m",
)
HOROVOD = grammar(
    "verbose disable-cache gloo mpi js check-build start-timeout-enabled",
    "np n num-proc p H hosts hostfile min-np max-np",
)
MPI = grammar(
    (
        "allow-run-as-root oversubscribe verbose v display-map report-bindings "
        "tag-output prtemapper bynode bysocket wdir-rel l"
    ),
    (
        "np n c N npernode ppn ntasks-per-node perhost map-by bind-to x "
        "H host hosts hostfile machinefile f wdir prefix launcher d rf"
    ),
    pairs="mca gmca genv env",
)
SRUN = grammar(
    (
        "pty l u label unbuffered exclusive overlap K kill-on-bad-exit Q quiet "
        "v verbose O overcommit s E no-kill k exact oversubscribe mpi-all"
    ),
    (
        "n N c p t A J o e w x G m C q D M B r i L ntasks nodes cpus-per-task gpus "
        "container-image container-mounts container-name container-workdir container-save container-env"
    ),
)
JSRUN = grammar(
    "smpiargs-off E-all",
    (
        "n r a c g b d l E "
        "X M nrs rs-per-host tasks-per-rs cpu-per-rs gpu-per-rs bind launch-distribution latency-priority"
    ),
)
APRUN = grammar("q", "n N d j cc S e L m t")
DOCKER = grammar(
    (
        "it i t ti d rm detach interactive "
        "tty privileged init read-only no-healthcheck oom-kill-disable P publish-all sig-proxy"
    ),
    "",
)
SINGULARITY = grammar(
    (
        "nv rocm containall C cleanenv e contain c writable w "
        "writable-tmpfs no-home fakeroot f compat no-mount-home nvccli p u unsquash userns"
    ),
    "B bind H home W pwd env env-file overlay o app S scratch no-mount",
)
RUNNER = grammar(
    "no-capture-output live-stream s q v no-sync frozen isolated locked no-project active all-extras no-dev",
    "n p name prefix cwd project with extra group python env-file package directory",
)
PROFILER = grammar("", "o t s f w c y d k e b x output force-overwrite trace stats capture-range set section")
