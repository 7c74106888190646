// Text while it streams: set with textContent, in light blocks. Each push costs what
// is new: finished blocks are left alone, only the last one is drawn again.

import { make, say } from "./dom.js";

// Offsets count code points, JavaScript's strings count UTF-16 units.
export function points(text) {
  let count = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd800 && unit <= 0xdbff) count -= 1;
  }
  return count;
}

function cut(text, skip) {
  let at = 0;
  while (skip > 0 && at < text.length) {
    at += text.codePointAt(at) > 0xffff ? 2 : 1;
    skip -= 1;
  }
  return text.slice(at);
}

const FENCE = /^ {0,3}(```+|~~~+)/;

export class Blocks {
  constructor(root) {
    this.root = root;
    this.rest = "";
    this.tail = null;
  }

  add(text) {
    this.rest += text;
    for (let end = this.blockEnd(); end > 0; end = this.blockEnd()) {
      this.draw(this.rest.slice(0, end));
      this.tail = null;
      this.rest = this.rest.slice(end).replace(/^\n+/, "");
    }
    if (this.rest) this.draw(this.rest);
  }

  // Where the first block is certainly over; 0 while it may go on.
  blockEnd() {
    const fence = FENCE.exec(this.rest);
    if (!fence) {
      const end = this.rest.search(/\n\n|\n(?= {0,3}(```|~~~))/);
      return end < 0 ? 0 : end + 1;
    }
    const from = this.rest.indexOf("\n");
    const end = from < 0 ? -1 : this.rest.indexOf(`\n${fence[1]}`, from - 1);
    if (end < 0) return 0;
    const line = this.rest.indexOf("\n", end + 1);
    return line < 0 ? 0 : line + 1;
  }

  draw(text) {
    const fence = FENCE.exec(text);
    if (fence) return this.drawCode(text, fence[1]);
    const block = make(...this.shape(text.trim()));
    if (this.tail) this.tail.replaceWith(block);
    else this.root.append(block);
    this.tail = block;
  }

  shape(text) {
    const heading = /^(#{1,6}) ([^\n]*)$/.exec(text);
    if (heading) return [`h${Math.min(6, heading[1].length + 2)}`, "", heading[2]];
    return ["p", "", text.replace(/\*\*([^*\n]+)\*\*/g, "$1").replace(/^[-*] /gm, "• ")];
  }

  drawCode(text, mark) {
    const start = text.indexOf("\n") + 1;
    let code = start ? text.slice(start) : "";
    const end = code.lastIndexOf(`\n${mark}`);
    if (end >= 0) code = code.slice(0, end + 1);
    if (!this.tail?.matches("pre")) {
      this.tail?.remove();
      this.tail = make("pre");
      this.tail.append(document.createTextNode(""));
      this.root.append(this.tail);
    }
    const node = this.tail.firstChild;
    if (code.startsWith(node.data)) node.appendData(code.slice(node.data.length));
    else node.data = code;
  }
}

export class Stream {
  constructor(id, epoch, kind, place) {
    this.id = id;
    this.epoch = epoch;
    this.kind = kind;
    this.place = place;
    this.length = 0;
    this.waiting = "";
    this.closed = false;
    this.round = kind === "tool" ? null : Number(id.split(":")[1]);
  }

  // False if something is missing before this text.
  take(offset, text) {
    const size = points(text);
    if (offset + size <= this.length) return true;
    if (offset > this.length) {
      if (this.kind !== "tool") return false;
      this.waiting += this.length ? `\n${say("omitted")}\n` : "";
      this.length = offset;
    }
    this.waiting += cut(text, this.length - offset);
    this.length = offset + size;
    return true;
  }

  draw() {
    if (!this.waiting || !this.place.ready(this)) return;
    this.place.write(this, this.waiting);
    this.waiting = "";
  }
}
