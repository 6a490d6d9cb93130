"use strict";

// Without this script the page is complete; it adds sorting and filtering.

const byId = (id) => document.getElementById(id);

function valueOf(row, column, kind) {
  const text = row.cells[column].dataset.value;
  if (kind === "number") return text === "" ? null : Number(text);
  return text;
}

// Rows without a value come last in either direction; equal rows keep their order.
function sortBy(table, column, kind, direction) {
  const body = table.tBodies[0];
  const sign = direction === "ascending" ? 1 : -1;
  const rows = Array.from(body.rows).map((row) => [valueOf(row, column, kind), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (kind === "number" ? a - b : a.localeCompare(b));
  });
  body.append(...rows.map(([, row]) => row));
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

function matches(row, wanted) {
  return byId(row.dataset.kind).checked
    && (!byId("verified").checked || row.dataset.verified === "yes")
    && wanted.every((word) => row.dataset.words.includes(word));
}

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  let all = 0;
  for (const section of document.querySelectorAll("section[data-track]")) {
    section.hidden = track.value !== "" && section.dataset.track !== track.value;
    for (const row of section.querySelectorAll("table.board > tbody > tr")) {
      row.hidden = !matches(row, wanted);
      for (const other of section.querySelectorAll("[data-entry]")) {
        if (other.dataset.entry === row.id) other.toggleAttribute("hidden", row.hidden);
      }
      all += 1;
      shown += !row.hidden && !section.hidden;
    }
  }
  byId("count").value = `${shown} of ${all} entries shown`;
}

// A link from a plot opens the details of its entry.
function open() {
  const row = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
  const details = row && row.querySelector("details");
  if (details) details.open = true;
}

document.querySelector(".filters").hidden = false;
for (const control of [track, words, ...boxes]) control.addEventListener("input", filter);
window.addEventListener("hashchange", open);
filter();
open();
