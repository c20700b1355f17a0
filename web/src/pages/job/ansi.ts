// Terminal output as lines of coloured text. All other escape sequences (titles, cursor movements, links, queries) are
// dropped, so that a log cannot trigger anything.

export interface Style {
  /** 0–15: palette of the terminal (paint.ts); "#rrggbb": a fixed colour. */
  color?: number | string;
  background?: number | string;
  isBold?: boolean;
  isDim?: boolean;
  isItalic?: boolean;
  isUnderlined?: boolean;
  isInverse?: boolean;
}

export interface Span {
  text: string;
  style: Style;
}

export const PLAIN: Style = Object.freeze({});
const MAX_LINE = 10_000;
const ESC = "\x1b";
// Plain text | controls | escapes: CSI, strings (OSC, DCS, APC, PM, SOS) up to their end, and short ones.
const PART = /[^\x00-\x1f\x7f-\x9f]+|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\`-~]|[\x00-\x1f\x7f-\x9f]/g;
const INCOMPLETE = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$/;
const MAX_ESCAPE = 4096;

/** Parser of one task's output. Reports each line when it starts and whenever it changes. */
export class Terminal {
  #style: Style = PLAIN;
  #column = 0;
  #spans: Span[] = [];
  #length = 0;
  #rest = "";
  readonly #put: (spans: Span[], isNew: boolean) => void;
  #isOpen = false;

  /** `put` receives the current content of a line; `isNew` is false for an update of the previous line. */
  constructor(put: (spans: Span[], isNew: boolean) => void) {
    this.#put = put;
  }

  write(text: string): void {
    const all = this.#rest + text;
    const cut = INCOMPLETE.exec(all);
    const isWaiting = cut !== null && all.length - cut.index < MAX_ESCAPE;
    this.#rest = isWaiting ? all.slice(cut.index) : "";
    for (const [part] of (isWaiting ? all.slice(0, cut.index) : all).matchAll(PART)) this.#process(part);
    if (this.#isOpen) this.#show();
  }

  #process(part: string): void {
    const first = part.charCodeAt(0);
    if (first >= 0x20 && !(first >= 0x7f && first <= 0x9f)) this.#print(part);
    else if (part === "\n") this.#newLine();
    else if (part === "\r") this.#column = 0;
    else if (part === "\b") this.#column = Math.max(0, this.#column - 1);
    else if (part === "\t") this.#print(" ".repeat(8 - (this.#column % 8)));
    else if (part.startsWith(`${ESC}[`)) this.#command(part);
  }

  #newLine(): void {
    this.#show();
    this.#spans = [];
    this.#length = this.#column = 0;
    this.#isOpen = false;
  }

  /** Reports a line as soon as it has content, an empty line when it ends. */
  #show(): void {
    this.#put(this.#spans.slice(), !this.#isOpen);
    this.#isOpen = true;
  }

  #print(text: string): void {
    for (let rest = text; rest !== ""; ) {
      if (this.#column >= MAX_LINE) this.#newLine();
      const now = rest.slice(0, MAX_LINE - this.#column);
      rest = rest.slice(now.length);
      this.#write(now);
    }
    if (!this.#isOpen) this.#show();
  }

  #write(text: string): void {
    const span = { text, style: this.#style };
    const end = this.#column + text.length;
    if (this.#column === this.#length) join(this.#spans, span);
    else this.#spans = [...cut(this.#spans, 0, this.#column), span, ...cut(this.#spans, end, this.#length)];
    this.#column = end;
    this.#length = Math.max(this.#length, end);
  }

  #command(escape: string): void {
    const last = escape.at(-1);
    const params = escape.slice(2, -1);
    if (last === "m" && /^[\d;:]*$/.test(params)) this.#style = styled(this.#style, params);
    else if (last === "K") this.#erase(params);
    else if (last === "G") this.#column = Math.min(this.#length, Math.max(0, (Number(params) || 1) - 1));
  }

  #erase(params: string): void {
    if (params === "2") this.#spans = [];
    else if (params === "1") this.#spans = [{ text: " ".repeat(this.#column), style: PLAIN }, ...cut(this.#spans, this.#column, this.#length)];
    else this.#spans = cut(this.#spans, 0, this.#column);
    this.#length = this.#spans.reduce((sum, span) => sum + span.text.length, 0);
    this.#column = Math.min(this.#column, this.#length);
  }
}

function join(spans: Span[], next: Span): void {
  const before = spans.at(-1);
  if (before && before.style === next.style) spans[spans.length - 1] = { text: before.text + next.text, style: next.style };
  else spans.push(next);
}

/** Spans of a line between two columns. */
function cut(spans: readonly Span[], from: number, to: number): Span[] {
  const kept: Span[] = [];
  let at = 0;
  for (const span of spans) {
    const text = span.text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (text) kept.push({ text, style: span.style });
    at += span.text.length;
  }
  return kept;
}

const FLAGS: Record<number, Partial<Style>> = {
  1: { isBold: true }, 2: { isDim: true }, 3: { isItalic: true }, 4: { isUnderlined: true }, 7: { isInverse: true },
  22: { isBold: undefined, isDim: undefined }, 23: { isItalic: undefined }, 24: { isUnderlined: undefined },
  27: { isInverse: undefined }, 39: { color: undefined }, 49: { background: undefined },
};

/** The style after a colour command with these parameters. */
export function styled(before: Style, params: string): Style {
  const codes = params.split(/[;:]/).map(Number);
  let style = before;
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at]!;
    if (code === 0) style = PLAIN;
    else if (code in FLAGS) style = { ...style, ...FLAGS[code] };
    else if (code >= 30 && code <= 37) style = { ...style, color: code - 30 };
    else if (code >= 40 && code <= 47) style = { ...style, background: code - 40 };
    else if (code >= 90 && code <= 97) style = { ...style, color: code - 82 };
    else if (code >= 100 && code <= 107) style = { ...style, background: code - 92 };
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes, at + 1);
      at += used;
      if (color !== undefined) style = { ...style, [code === 38 ? "color" : "background"]: color };
    }
  }
  return style;
}

/** Colour from 5;N (256 colours) or 2;R;G;B, and how many parameters it used. */
function extended(codes: number[], at: number): [number | string | undefined, number] {
  if (codes[at] === 5) return [of256(codes[at + 1] ?? 0), 2];
  if (codes[at] === 2) return [hex(codes[at + 1], codes[at + 2], codes[at + 3]), 4];
  return [undefined, 0];
}

function of256(n: number): number | string | undefined {
  if (n < 16) return n;
  if (n > 255) return undefined;
  if (n >= 232) return hex(8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10);
  const step = (k: number) => (k === 0 ? 0 : 55 + k * 40);
  const cube = n - 16;
  return hex(step(Math.floor(cube / 36)), step(Math.floor(cube / 6) % 6), step(cube % 6));
}

function hex(...parts: (number | undefined)[]): string {
  return `#${parts.map((part) => Math.min(255, Math.max(0, part || 0)).toString(16).padStart(2, "0")).join("")}`;
}
