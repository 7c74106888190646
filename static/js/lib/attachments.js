// The files of the message that is being written: chosen, pasted or dropped; each is
// uploaded at once and waits in the composer until the message is sent.

import { $, $$, make, say, toast } from "./dom.js";
import { Refused, post } from "./http.js";

// Characters from which a pasted text becomes a file.
const LONG_PASTE = 8000;
// Milliseconds that one upload may take.
const UPLOAD = 180000;

export class Attachments {
  constructor(form, { changed }) {
    this.form = form;
    this.list = $("#attached");
    this.field = $("textarea", form);
    this.chooser = $("input[type=file]", form);
    this.changed = changed;
    this.chooser.addEventListener("change", () => {
      this.add([...this.chooser.files]);
      this.chooser.value = "";
    });
    this.field.addEventListener("paste", (event) => this.pasted(event));
    this.list.addEventListener("click", (event) => this.pressed(event));
    this.dropOnto($("[data-chat]"));
  }

  get items() {
    return $$("[data-attachment]", this.list).map((one) => ({ ...one.dataset }));
  }

  get busy() {
    return $("[data-uploading]", this.list) !== null;
  }

  choose() {
    this.chooser.click();
  }

  pasted(event) {
    const { files } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain");
    if (files.length && !text) {
      event.preventDefault();
      this.add([...files]);
    } else if (text.length > LONG_PASTE) {
      event.preventDefault();
      const number = $$("li", this.list).length + 1;
      this.add([new File([text], `${say("pasted")} ${number}.txt`, { type: "text/plain" })], text);
    }
  }

  dropOnto(place) {
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    place.addEventListener("dragover", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      place.classList.add("is-dropping");
    });
    place.addEventListener("dragleave", (event) => {
      if (!place.contains(event.relatedTarget)) place.classList.remove("is-dropping");
    });
    place.addEventListener("drop", (event) => {
      place.classList.remove("is-dropping");
      if (!carries(event)) return;
      event.preventDefault();
      this.add([...event.dataTransfer.files]);
    });
  }

  add(files, undo = "") {
    for (const file of files) this.upload(file, undo);
    this.field.focus();
  }

  async upload(file, undo) {
    const item = make("li", "attached-item");
    item.dataset.uploading = "";
    if (undo) item.undo = undo;
    item.append(make("bdi", "attached-name", file.name), make("small", "", say("uploading")));
    this.list.append(item);
    this.changed();
    const fields = new FormData();
    fields.set("file", file, file.name || "image.png");
    try {
      this.show(item, await post(this.form.dataset.attach, fields, UPLOAD));
    } catch (error) {
      this.refuse(item, error instanceof Refused ? error.message : say("unreachable"), file);
    }
    delete item.dataset.uploading;
    this.changed();
  }

  // What the server keeps, with its picture or its length.
  show(item, { id, kind, name, url, about }) {
    Object.assign(item.dataset, { attachment: id, kind, name, url });
    item.replaceChildren();
    if (kind === "image") {
      const picture = make("img", "attached-picture");
      picture.src = url;
      picture.alt = "";
      item.append(picture);
    }
    item.append(make("bdi", "attached-name", name), make("small", "", about));
    if (item.undo) item.append(this.button("asText", "asText"));
    item.append(this.button("remove", "removeFile", "×"));
  }

  refuse(item, reason, file) {
    item.classList.add("is-refused");
    item.file = file;
    item.replaceChildren(make("bdi", "attached-name", file.name), make("small", "", reason));
    item.append(this.button("again", "tryAgain"));
    if (item.undo) item.append(this.button("asText", "asText"));
    item.append(this.button("remove", "removeFile", "×"));
    $("#announce").textContent = reason;
  }

  button(does, words, sign = "") {
    const button = make("button", sign ? "icon-button" : "button button-small", sign || say(words));
    button.type = "button";
    button.dataset.does = does;
    if (sign) button.setAttribute("aria-label", say(words));
    return button;
  }

  pressed(event) {
    const button = event.target.closest("[data-does]");
    const item = button?.closest("li");
    if (!item) return;
    if (button.dataset.does === "again") this.upload(item.file, item.undo);
    if (button.dataset.does === "asText") this.field.setRangeText(item.undo, this.field.selectionStart, this.field.selectionEnd, "end");
    this.forget(item);
    if (button.dataset.does === "asText") this.field.dispatchEvent(new Event("input", { bubbles: true }));
    this.field.focus();
  }

  forget(item) {
    item.remove();
    this.changed();
    if (!item.dataset.attachment) return;
    const url = `${this.form.dataset.attach}/${item.dataset.attachment}/remove`;
    post(url, {}).catch((error) => {
      if (!(error instanceof Refused && error.status === 404)) toast(say("unreachable"), "error");
    });
  }

  // The message takes them along.
  take() {
    const { items } = this;
    this.list.replaceChildren();
    this.changed();
    return items;
  }

  // A message that was not sent gives them back; some may stand here already.
  restore(items) {
    const here = new Set(this.items.map((one) => one.attachment));
    for (const { attachment, id = attachment, kind, name, url, about = "" } of items) {
      if (here.has(id)) continue;
      const item = make("li", "attached-item");
      this.show(item, { id, kind, name, url, about });
      this.list.append(item);
    }
    this.changed();
  }
}

// Small pictures and names of files, as they stand below a message.
export function thumbnails(items) {
  const list = make("ul", "thumbs");
  for (const { kind, name, url } of items) {
    const item = make("li");
    const link = make("a", kind === "image" ? "thumb" : "file-chip", kind === "image" ? "" : name);
    link.href = url;
    if (kind === "image") {
      link.dataset.lightbox = "";
      const picture = make("img");
      picture.src = url;
      picture.alt = name;
      link.append(picture);
    }
    item.append(link);
    list.append(item);
  }
  return list;
}
