// The page that starts a conversation.

import { $, $$, stored } from "./lib/dom.js";
import { Completion } from "./lib/completion.js";
import { Composer } from "./lib/composer.js";
import { List } from "./lib/list.js";

new List();
const form = $("[data-composer]");
if (form) {
  let sent = false;
  const composer = new Composer(form, {
    send(event) {
      if (sent || !composer.text) return event.preventDefault();
      sent = true;
      form.elements.client_id.value ||= crypto.randomUUID?.() ?? String(Math.random()).slice(2);
      stored(composer.key, "");
      $("button.send", form).disabled = true;
    },
  });
  new Completion(composer.field, form.dataset.complete);
  addEventListener("pageshow", () => {
    sent = false;
    $("button.send", form).disabled = false;
  });
  for (const example of $$("[data-example]")) {
    example.addEventListener("click", () => {
      composer.set(example.textContent.trim());
      composer.field.focus();
    });
  }
}
