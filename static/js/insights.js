// Insights: what a pointer over a chart reads, and tables that sort by a column.
// Without this file every chart still has its table.

import { $, $$, make } from "./lib/dom.js";

for (const chart of $$("[data-chart]")) {
  const plot = $("[data-plot]", chart);
  const cursor = $("[data-cursor]", chart);
  const tip = $("[data-tip]", chart);
  const tips = JSON.parse($("script", chart).textContent);

  function show(event) {
    const box = plot.getBoundingClientRect();
    const place = Math.floor(((event.clientX - box.left) / box.width) * tips.length);
    const step = Math.max(0, Math.min(tips.length - 1, place));
    if (!tips.length) return;
    tip.textContent = tips[step];
    cursor.setAttribute("d", `M${((step + 0.5) * 1000) / tips.length} 0 V200`);
    cursor.removeAttribute("hidden");
  }

  function clear() {
    tip.textContent = "\u00a0";
    cursor.setAttribute("hidden", "");
  }

  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  plot.addEventListener("pointerleave", clear);
}

const UNITS = { k: 1e3, M: 1e6 };

// "12.4k", "$0.0100", "91 %", "2 min 05 s", "–" as a number that sorts.
function amount(text) {
  const minutes = text.match(/^([\d.,]+)\D+(\d+)/);
  if (minutes && !/[%$k M]$/.test(text) && /\s/.test(text)) return Number(minutes[1]) * 60 + Number(minutes[2]);
  const found = text.replace(",", ".").match(/([\d.]+)\s*([kM])?/);
  return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) : -1;
}

function sort(table, head, column) {
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of $$("th[aria-sort]", table)) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = $("tbody", table);
  const key = (row) => row.cells[column].textContent.trim();
  const compare = head.classList.contains("number")
    ? (one, other) => amount(key(other)) - amount(key(one))
    : (one, other) => key(one).localeCompare(key(other));
  const rows = [...body.rows].sort(compare);
  body.append(...(down ? rows : rows.reverse()));
}

for (const table of $$("table[data-sortable]")) {
  if (table.tBodies[0].rows.length < 2) continue;
  for (const [column, head] of $$("thead th", table).entries()) {
    const button = make("button", "sort", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => sort(table, head, column));
    head.replaceChildren(button);
  }
}
