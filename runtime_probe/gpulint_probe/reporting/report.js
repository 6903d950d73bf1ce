"use strict";
// Shows the values under the pointer, or under a position that the arrow keys move.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const timeline = document.getElementById("timeline");
  const hair = document.getElementById("hair");
  const readout = document.getElementById("readout");
  const plot = timeline.querySelector(".plot");
  if (!plot) return;
  let at = -1;

  function text(value, unit) {
    if (value === null) return "not seen";
    if (unit === "%") return Math.round(value * 100) + "%";
    if (unit === "B") return (value / 1073741824).toFixed(1) + " GiB";
    return (value / 1e6).toFixed(0) + " MB/s";
  }

  function clock(seconds) {
    const whole = Math.round(seconds), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, s = whole % 60;
    return (h ? h + ":" + String(m).padStart(2, "0") : m) + ":" + String(s).padStart(2, "0");
  }

  function show(index) {
    at = Math.min(data.count - 1, Math.max(0, index));
    const time = (at + 0.5) / data.count * data.seconds;
    const outer = timeline.getBoundingClientRect(), inner = plot.getBoundingClientRect();
    hair.style.display = "block";
    hair.style.left = inner.left - outer.left + (at + 0.5) / data.count * inner.width + "px";
    const causes = data.causes.filter(cause => cause[1] <= time && time < cause[2]);
    const near = data.marks.filter(mark => Math.abs(mark[0] - time) <= data.seconds / data.count);
    readout.textContent = clock(time) + "  " + data.lanes.map(lane => lane.label + " " + text(lane.values[at], lane.unit))
      .concat(causes.map(cause => "GPU " + cause[0] + ": " + cause[3]))
      .concat(near.map(mark => "“" + mark[1] + "”")).join(", ");
    for (const lane of data.lanes) {
      const value = document.getElementById(lane.id);
      if (value) value.textContent = text(lane.values[at], lane.unit);
    }
  }

  function hide() {
    at = -1;
    hair.style.display = "none";
    readout.textContent = data.hint;
    for (const lane of data.lanes) {
      const value = document.getElementById(lane.id);
      if (value) value.textContent = lane.overall;
    }
  }

  timeline.addEventListener("pointermove", event => {
    const inner = plot.getBoundingClientRect(), share = (event.clientX - inner.left) / inner.width;
    if (share >= 0 && share <= 1) show(Math.floor(share * data.count)); else hide();
  });
  timeline.addEventListener("pointerleave", hide);
  timeline.addEventListener("blur", hide);
  timeline.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (step === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    show(event.key === "Home" ? 0 : event.key === "End" ? data.count - 1 : at + step);
  });
})();
