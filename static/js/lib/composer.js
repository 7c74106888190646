// The field in which people write: Enter sends, an IME's Enter never does, what was
// written is kept until it is sent.

import { $, composing, stored } from "./dom.js";

export class Composer {
  constructor(form, { send }) {
    this.form = form;
    this.field = $("textarea", form);
    this.key = `draft:${form.dataset.draft}`;
    if (!this.field.value) this.field.value = stored(this.key);
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.field.addEventListener("input", () => this.changed());
    form.addEventListener("submit", (event) => send(event, this));
    this.fit();
  }

  get text() {
    return this.field.value.trim();
  }

  pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.altKey || composing(event)) return;
    event.preventDefault();
    if (this.text || this.carries?.()) this.form.requestSubmit($("button.send", this.form));
  }

  changed() {
    if (!this.editing) stored(this.key, this.field.value);
    this.fit();
  }

  set(text, { keep = true } = {}) {
    this.field.value = text;
    if (keep) stored(this.key, text);
    this.fit();
  }

  fit() {
    if (CSS.supports("field-sizing", "content")) return;
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, innerHeight * 0.4)}px`;
  }
}
