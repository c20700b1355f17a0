// The YAML editor. It and CodeMirror come as a file of their own, when the page first shows it.
import { autocompletion, type CompletionContext, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { optionsAt, placeAt } from "./complete";
import type { Mark } from "./document";
import { colours, theme } from "./editorTheme";
import type { Schema } from "./schema";

interface Props {
  label: string;
  text: string;
  schema: Schema | undefined;
  marks: readonly Mark[];
  onChange: (text: string) => void;
}

export default function Editor({ label, text, schema, marks, onChange }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const known = useRef({ schema, onChange });
  known.current = { schema, onChange };
  const typed = useRef(new Set<string>());

  useEffect(() => {
    const made = makeView(host.current!, text, {
      changed: (next) => {
        typed.current.add(next);
        known.current.onChange(next);
      },
      schema: () => known.current.schema,
    });
    view.current = made;
    return () => made.destroy();
    // Made once: later texts come by the effect below.
    // eslint-disable-next-line
  }, []);

  useEffect(() => {
    view.current?.dispatch({ effects: labels.reconfigure(EditorView.contentAttributes.of({ "aria-label": label })) });
  }, [label]);

  // What was typed here comes back a moment later, when there may be more already: only other texts are taken over.
  useEffect(() => {
    const now = view.current?.state.doc.toString();
    if (now === text) typed.current.clear();
    else if (view.current && !typed.current.has(text)) view.current.dispatch({ changes: difference(now!, text) });
  }, [text]);

  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const end = made.state.doc.length;
    const shown = marks.map((one) => ({
      from: Math.min(one.from, end), to: Math.min(Math.max(one.to, one.from), end), severity: "error" as const, message: one.text,
    }));
    made.dispatch(setDiagnostics(made.state, shown));
  }, [marks, text]);

  return <div ref={host} />;
}

const labels = new Compartment();

interface Needs {
  changed: (text: string) => void;
  schema: () => Schema | undefined;
}

/** In a shadow root, where CodeMirror adopts its style sheets instead of writing style elements, which the content
 * policy refuses. */
function makeView(host: HTMLElement, text: string, needs: Needs): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  return new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), replaceSelected, lintGutter(), yaml(),
        indentUnit.of("  "), syntaxHighlighting(colours), theme, EditorView.lineWrapping,
        autocompletion({ override: [(context) => complete(context, needs.schema())], icons: false }),
        keymap.of([...completionKeymap, ...lintKeymap, ...defaultKeymap, ...historyKeymap]),
        labels.of([]),
        EditorView.updateListener.of((update) => update.docChanged && needs.changed(update.state.doc.toString())),
      ],
    }),
  });
}

/** Left to the browser, typing over coloured text copies its colours into a style attribute, which the content policy
 * refuses with a complaint. */
const replaceSelected = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

function complete(context: CompletionContext, schema: Schema | undefined) {
  const place = schema && placeAt(context.state.doc.toString(), context.pos);
  if (!place || (place.from === context.pos && place.kind === "key" && !context.explicit)) return null;
  const options = optionsAt(place, schema);
  return {
    from: place.from,
    options: options.map((one, at) => ({ label: one.label, apply: one.insert, boost: -at, ...(one.info ? { info: one.info } : {}) })),
    validFor: /^[\w.%-]*$/,
  };
}

/** Only what differs, so that the cursor stays where it is. */
function difference(before: string, after: string) {
  let from = 0;
  while (from < before.length && from < after.length && before[from] === after[from]) from++;
  let tail = 0;
  const most = Math.min(before.length, after.length) - from;
  while (tail < most && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  return { from, to: before.length - tail, insert: after.slice(from, after.length - tail) };
}
