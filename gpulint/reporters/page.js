"use strict";
const form = document.querySelector("form");
const findings = [...document.querySelectorAll("details.finding")];
const count = document.querySelector("output");
form.hidden = false;

function show() {
  const levels = new Set([...form.querySelectorAll("[name=impact]:checked")].map((box) => box.value));
  const category = form.elements.category.value;
  const path = form.elements.path.value.trim().toLowerCase();
  let shown = 0;
  for (const finding of findings) {
    const data = finding.dataset;
    const fits =
      levels.has(data.impact) &&
      (!category || data.category === category) &&
      (!path || data.paths.toLowerCase().includes(path));
    finding.hidden = !fits;
    shown += fits;
  }
  for (const card of document.querySelectorAll("section.group")) {
    card.hidden = !card.querySelector("details.finding:not([hidden])");
  }
  count.textContent = `${shown} of ${findings.length} entries shown`;
}

function openAll(open) {
  for (const finding of findings) {
    finding.open = open;
  }
}

function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
}

form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(show));
document.getElementById("open").addEventListener("click", () => openAll(true));
document.getElementById("close").addEventListener("click", () => openAll(false));
window.addEventListener("hashchange", openTarget);
window.addEventListener("beforeprint", () => openAll(true));
show();
openTarget();
