"use strict";

// Without this script the page is complete; it adds sorting and filtering.

const byId = (id) => document.getElementById(id);

// An entry is a body of its own: a row of numbers, and one of details.
function valueOf(entry, column, kind) {
  const text = entry.rows[0].cells[column].dataset.value;
  if (kind === "number") return text === "" ? null : Number(text);
  return text;
}

// Rows without a value come last in either direction; equal rows keep their order.
function sortBy(table, column, kind, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const entries = Array.from(table.tBodies).map((entry) => [valueOf(entry, column, kind), entry]);
  entries.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (kind === "number" ? a - b : a.localeCompare(b));
  });
  table.append(...entries.map(([, entry]) => entry));
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", direction);
}

for (const table of document.querySelectorAll("table.board")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const kind = head.dataset.sort;
    if (!kind) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.dataset.first || "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      sortBy(table, column, kind, head.getAttribute("aria-sort") === first ? other : first);
    });
  });
}

const track = byId("track");
const words = byId("words");
const boxes = ["recomputed", "reported", "verified"].map(byId);

function matches(entry, wanted) {
  return byId(entry.dataset.kind).checked
    && (!byId("verified").checked || entry.dataset.verified === "yes")
    && wanted.every((word) => entry.dataset.words.includes(word));
}

// The filters are part of the address, so that a view can be linked to.
function remember() {
  const query = new URLSearchParams();
  if (track.value) query.set("track", track.value);
  if (words.value.trim()) query.set("search", words.value.trim());
  for (const box of boxes) if (box.checked !== box.defaultChecked) query.set(box.id, box.checked ? "yes" : "no");
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text && `?${text}`) + location.hash);
}

function recall() {
  const query = new URLSearchParams(location.search);
  if (Array.from(track.options).some((one) => one.value === query.get("track"))) track.value = query.get("track");
  words.value = query.get("search") || "";
  for (const box of boxes) if (query.has(box.id)) box.checked = query.get(box.id) === "yes";
}

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  let all = 0;
  for (const section of document.querySelectorAll("section[data-track]")) {
    section.hidden = track.value !== "" && section.dataset.track !== track.value;
    let here = 0;
    for (const entry of section.querySelectorAll("table.board > tbody")) {
      entry.hidden = !matches(entry, wanted);
      for (const other of section.querySelectorAll("[data-entry]")) {
        if (other.dataset.entry === entry.id) other.toggleAttribute("hidden", entry.hidden);
      }
      all += 1;
      here += !entry.hidden;
    }
    const hits = section.querySelector(".hits");
    if (hits) hits.hidden = here === 0;
    section.querySelector(".none").hidden = !hits || here > 0;
    if (!section.hidden) shown += here;
  }
  byId("count").value = `${shown} of ${all} entries shown`;
}

// A link from a plot opens the details of its entry.
function open() {
  const entry = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  const details = entry && entry.querySelector("details");
  if (details) details.open = true;
}

document.querySelector(".filters").hidden = false;
for (const control of [track, words, ...boxes]) {
  control.addEventListener("input", () => {
    filter();
    remember();
  });
}
window.addEventListener("hashchange", open);
recall();
filter();
open();
