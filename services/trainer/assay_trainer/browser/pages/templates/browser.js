"use strict";
const stamps = new Map();

async function refresh(live) {
  if (document.hidden) return;
  const stamp = stamps.get(live);
  const answer = await fetch(live.dataset.live, { headers: stamp ? { "if-none-match": stamp } : {} });
  if (answer.status !== 200) return;
  stamps.set(live, answer.headers.get("etag") ?? "");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const open = [...live.querySelectorAll("details")].map((one) => one.open);
  live.replaceChildren(...fresh.body.childNodes);
  live.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? one.open; });
  document.dispatchEvent(new Event("assay:refreshed"));
}

for (const live of document.querySelectorAll("[data-live]")) {
  // A trainer that is away for a while is asked again.
  const again = () => refresh(live).catch(() => {}).finally(() => setTimeout(again, Number(live.dataset.everyMs)));
  again();
}

function follow(relation) {
  const here = document.querySelector("article:target") ?? document;
  const link = here.querySelector(`a[rel="${relation}"]`);
  if (link) link.click();
}

function besides(steps) {
  const cells = [...document.querySelectorAll("a.cell")];
  const at = cells.indexOf(document.activeElement);
  const to = cells[at < 0 ? 0 : at + steps];
  if (to) to.focus();
}

function below(rows) {
  const here = document.activeElement;
  const groups = [...document.querySelectorAll(".cells")];
  const at = groups.indexOf(here.closest?.(".cells"));
  const place = at < 0 ? 0 : [...groups[at].children].indexOf(here);
  const to = groups[at < 0 ? 0 : at + rows];
  if (to) to.children[Math.min(Math.max(place, 0), to.children.length - 1)].focus();
}

const KEYS = {
  n: () => follow("next"), p: () => follow("prev"), u: () => follow("up"),
  l: () => besides(1), h: () => besides(-1), j: () => below(1), k: () => below(-1),
  "/": () => document.querySelector("input")?.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
