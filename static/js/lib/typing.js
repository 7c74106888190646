// What streams: assistant text and thinking below the entries, live output in cards.

import { $, $$, make, say } from "./dom.js";
import { Blocks, Stream } from "./streams.js";

const LONGEST_LIVE = 24000;

export class Streams {
  constructor(reader, { gap }) {
    this.box = $("#streams");
    this.reader = reader;
    this.gap = gap;
    this.all = new Map();
    this.finished = new Set();
    this.message = null;
  }

  delta({ stream: id, epoch, kind, offset, text }) {
    if (this.finished.has(id + epoch)) return;
    const known = this.all.get(id);
    // A lost worker's text gives way to that of the one who begins the round again.
    if (known && known.epoch !== epoch) this.end(known);
    const stream = this.all.get(id) ?? this.begin(id, epoch, kind);
    if (!stream.take(offset, text)) this.gap();
    this.soon();
  }

  begin(id, epoch, kind) {
    const stream = new Stream(id, epoch, kind, this);
    this.all.set(id, stream);
    return stream;
  }

  // What a catch-up says is in progress: begin what is new, fill what is missing.
  // What a lost worker left behind is older than the entries: it is not shown.
  sync(streams, turn) {
    const rounds = turn ? $$(`#entries [data-turn="${turn}"][data-round]`).map((one) => Number(one.dataset.round) || 0) : [];
    const done = turn ? Math.max(0, ...rounds) : Infinity;
    for (const { stream, epoch, kind, start, text } of streams) {
      if (kind !== "tool" && Number(stream.split(":")[1]) <= done) continue;
      this.delta({ stream, epoch, kind, offset: start, text });
    }
    const alive = new Set(streams.map((one) => one.stream));
    for (const stream of this.all.values()) if (!alive.has(stream.id) && stream.closed) this.end(stream);
  }

  soon() {
    if (this.planned) return;
    this.planned = true;
    const draw = () => {
      this.planned = false;
      this.reader.below(() => this.all.forEach((stream) => stream.draw()));
    };
    if (document.hidden) setTimeout(draw, 250);
    else requestAnimationFrame(draw);
  }

  ready(stream) {
    if (stream.kind !== "tool") return true;
    stream.target ??= this.liveOutput(stream.id.replace(/^call:/, ""));
    if (stream.target && !stream.target.isConnected) stream.target = this.liveOutput(stream.id.replace(/^call:/, ""));
    return stream.target != null;
  }

  liveOutput(callId) {
    const cards = $$(`[data-card]:not([data-result])[data-call="${CSS.escape(callId)}"]`);
    const output = cards.length ? $("[data-live]", cards[cards.length - 1]) : null;
    if (output?.hidden) {
      output.hidden = false;
      const card = output.closest("details");
      if (!card.open) {
        card.open = true;
        card.dataset.opened = "live";
        $("summary", card).addEventListener("click", () => delete card.dataset.opened, { once: true });
      }
    }
    return output;
  }

  write(stream, text) {
    if (stream.kind === "tool") {
      const follows = stream.target.scrollTop + stream.target.clientHeight >= stream.target.scrollHeight - 20;
      const all = stream.target.textContent + text;
      stream.target.textContent = all.length > LONGEST_LIVE ? all.slice(-LONGEST_LIVE) : all;
      if (follows) stream.target.scrollTop = stream.target.scrollHeight;
      return;
    }
    stream.blocks ??= this.room(stream);
    stream.blocks.add(text);
  }

  room(stream) {
    const message = make("article", "message message-agent");
    message.dataset.stream = stream.id;
    const before = $$("#entries > [data-seq]").findLast((one) => one.matches(".message"));
    if (before?.dataset.kind !== "assistant") {
      message.classList.add("message-opens");
      message.append(this.head());
    }
    let place = message;
    if (stream.kind === "reasoning") {
      place = make("details", "reasoning");
      place.append(make("summary", "", say("thinking")));
      message.append(place);
    }
    const body = make("div", "message-body prose stream-text caret");
    body.setAttribute("aria-busy", "true");
    place.append(body);
    this.box.append(message);
    stream.element = message;
    stream.body = body;
    return new Blocks(body);
  }

  head() {
    const head = make("header", "message-head");
    const known = $(".message-agent .message-head .avatar-agent");
    const avatar = known ? known.cloneNode(true) : make("span", "avatar avatar-agent");
    head.append(avatar, make("strong", "", $("#main").dataset.agent || ""));
    return head;
  }

  superseded(id) {
    const stream = this.all.get(id);
    if (!stream) return;
    this.finished.add(id + stream.epoch);
    this.all.delete(id);
    if (!stream.element) return;
    stream.element.classList.add("is-superseded");
    stream.body.classList.remove("caret");
    stream.element.append(make("p", "message-note", say("superseded")));
    setTimeout(() => this.reader.below(() => stream.element.remove()), 4000);
  }

  closed(id) {
    const stream = this.all.get(id);
    if (!stream) return;
    stream.closed = true;
    stream.body?.classList.remove("caret");
  }

  // The stored message of this round is on the page: its live picture goes.
  stored(round) {
    for (const stream of this.all.values()) if (stream.kind !== "tool" && stream.round <= round) this.end(stream);
  }

  end(stream) {
    this.finished.add(stream.id + stream.epoch);
    this.all.delete(stream.id);
    stream.element?.remove();
  }

  endAll() {
    for (const stream of [...this.all.values()]) this.end(stream);
  }
}
