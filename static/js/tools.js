// Every tool of a conversation: show those that the words fit.

import { $, $$ } from "./lib/dom.js";

const page = $("[data-filter]");
const words = $("[data-words]", page);

words.addEventListener("input", () => {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of $$("[data-row]", page)) {
    const text = row.dataset.text.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  $("[data-nothing]", page).hidden = shown > 0;
});
