// Messages on their way: shown at once, sent until the server has them, each once.
// The sender's own id makes a second try harmless; what a closed page left unsent is
// sent when it opens again.

import { thumbnails } from "./attachments.js";
import { $, make, say, stored } from "./dom.js";
import { Refused, post } from "./http.js";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Outbox {
  constructor(chat, reader, { accepted, discarded }) {
    this.chat = chat;
    this.reader = reader;
    this.accepted = accepted;
    this.discarded = discarded;
    this.box = $("#pending");
    this.key = `outbox:${chat.dataset.user}:${chat.dataset.conversation}`;
    this.shown = new Map();
    this.line = Promise.resolve();
    for (const message of this.kept()) this.add(message);
  }

  kept() {
    try {
      return JSON.parse(stored(this.key) || "[]");
    } catch {
      return [];
    }
  }

  keep(change) {
    stored(this.key, JSON.stringify(change(this.kept())));
  }

  send(url, fields, files = []) {
    const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    const message = { url, fields: { ...fields, client_id: id }, id, files };
    this.keep((all) => [...all, message]);
    this.add(message);
  }

  add(message) {
    const element = this.draw(message);
    this.shown.set(message.id, element);
    this.reader.below(() => this.box.append(element));
    this.line = this.line.then(() => this.deliver(message, element));
  }

  draw(message) {
    const { userName, userInitials, userHue } = this.chat.dataset;
    const element = make("article", "message message-user message-pending");
    const head = make("header", "message-head");
    const avatar = make("span", `avatar hue-${userHue}`, userInitials);
    avatar.setAttribute("aria-hidden", "true");
    const note = make("span", "message-note", say("sending"));
    head.append(avatar, make("strong", "", userName), note);
    element.append(head, make("div", "message-body prose user-text", message.fields.text));
    if (message.files?.length) element.append(thumbnails(message.files));
    return element;
  }

  async deliver(message, element) {
    const note = $(".message-note", element);
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        const answer = await post(message.url, message.fields, 30000);
        this.forget(message.id);
        note.remove();
        element.dataset.accepted = answer.seq ?? answer.queued ?? "";
        this.accepted(answer);
        return;
      } catch (error) {
        if (error instanceof Refused) return this.refuse(message, element, error);
        note.textContent = say("retrying");
        await pause(wait * (0.75 + Math.random() / 2));
      }
    }
  }

  refuse(message, element, error) {
    this.forget(message.id);
    element.classList.add("is-refused");
    const note = $(".message-note", element);
    note.textContent = say("refused", { reason: error.message });
    const again = make("button", "button button-small", say("tryAgain"));
    const drop = make("button", "button button-small", say("discard"));
    again.addEventListener("click", () => {
      element.remove();
      this.send(message.url, message.fields, message.files);
    });
    drop.addEventListener("click", () => {
      element.remove();
      this.discarded(message.fields.text, message.files ?? []);
    });
    note.append(" ", again, " ", drop);
  }

  forget(id) {
    this.keep((all) => all.filter((one) => one.id !== id));
  }

  // The stored message is on the page now: its picture goes.
  settle(clientIds) {
    for (const id of clientIds) {
      this.shown.get(id)?.remove();
      this.shown.delete(id);
    }
  }
}
