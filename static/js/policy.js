// The tool policy: filter the tools, add up what is ticked, ask what it would cost.

import { $, $$ } from "./lib/dom.js";

const form = $("[data-policy]");
const rows = $$("[data-row]", form);
const words = $("[data-words]", form);
const onlyChosen = $("[data-only-chosen]", form);
const LANGUAGE = document.documentElement.lang;

const box = (row) => $("input[type=checkbox]", row);

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.dataset.text.toLowerCase();
    const fits = wanted.every((word) => text.includes(word)) && (!onlyChosen.checked || box(row).checked);
    row.hidden = !fits;
    shown += fits;
  }
  const nothing = $("[data-nothing]", form);
  if (nothing) nothing.hidden = shown > 0;
}

function addUp() {
  let total = 0;
  for (const row of rows) if (box(row).checked) total += Number(row.dataset.tokens);
  $("[data-total]", form).textContent = total.toLocaleString(LANGUAGE);
}

let timer;
let asked = 0;

async function ask() {
  const number = ++asked;
  try {
    const answer = await fetch(form.dataset.effect, { method: "POST", body: new FormData(form) });
    if (!answer.ok || number !== asked) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    $("[data-effects]", form).replaceChildren(...fresh.body.childNodes);
  } catch {
    // The button "Show the effect" asks again.
  }
}

form.addEventListener("change", (event) => {
  if (event.target === onlyChosen) return filter();
  addUp();
  clearTimeout(timer);
  timer = setTimeout(ask, 250); // ms
});
words.addEventListener("input", filter);
words.addEventListener("keydown", (event) => {
  if (event.key === "Enter") event.preventDefault();
});
onlyChosen.addEventListener("change", filter);
