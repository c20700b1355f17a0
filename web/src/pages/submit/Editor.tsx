// The YAML editor. It is loaded with CodeMirror when it is first shown.
import { autocompletion, type CompletionContext, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { optionsAt, contextAt } from "./complete";
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
  const latest = useRef({ schema, onChange });
  latest.current = { schema, onChange };
  const typed = useRef(new Set<string>());

  useEffect(() => {
    const editor = makeView(host.current!, text, {
      changed: (next) => {
        typed.current.add(next);
        latest.current.onChange(next);
      },
      schema: () => latest.current.schema,
    });
    view.current = editor;
    return () => editor.destroy();
    // Created once; the effect below sets later texts.
    // eslint-disable-next-line
  }, []);

  useEffect(() => {
    view.current?.dispatch({ effects: labels.reconfigure(EditorView.contentAttributes.of({ "aria-label": label })) });
  }, [label]);

  // The parent returns typed text with a delay, when more may have been typed. Only texts from elsewhere are applied.
  useEffect(() => {
    const now = view.current?.state.doc.toString();
    if (now === text) typed.current.clear();
    else if (view.current && !typed.current.has(text)) view.current.dispatch({ changes: difference(now!, text) });
  }, [text]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const end = editor.state.doc.length;
    const shown = marks.map((mark) => ({
      from: Math.min(mark.from, end), to: Math.min(Math.max(mark.to, mark.from), end), severity: "error" as const, message: mark.text,
    }));
    editor.dispatch(setDiagnostics(editor.state, shown));
  }, [marks, text]);

  return <div ref={host} />;
}

const labels = new Compartment();

interface Callbacks {
  changed: (text: string) => void;
  schema: () => Schema | undefined;
}

/** Creates the editor in a shadow root, where CodeMirror uses adopted style sheets. The content security policy forbids
 * style elements. */
function makeView(host: HTMLElement, text: string, callbacks: Callbacks): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  return new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(), history(), drawSelection(), replaceSelected, lintGutter(), yaml(),
        indentUnit.of("  "), syntaxHighlighting(colours), theme, EditorView.lineWrapping,
        autocompletion({ override: [(context) => complete(context, callbacks.schema())], icons: false }),
        keymap.of([...completionKeymap, ...lintKeymap, ...defaultKeymap, ...historyKeymap]),
        labels.of([]),
        EditorView.updateListener.of((update) => update.docChanged && callbacks.changed(update.state.doc.toString())),
      ],
    }),
  });
}

/** Handles typing over a selection. The browser would copy the colours into a style attribute, which the content
 * security policy forbids. */
const replaceSelected = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

function complete(context: CompletionContext, schema: Schema | undefined) {
  const cursor = schema && contextAt(context.state.doc.toString(), context.pos);
  if (!cursor || (cursor.from === context.pos && cursor.kind === "key" && !context.explicit)) return null;
  const options = optionsAt(cursor, schema);
  return {
    from: cursor.from,
    options: options.map((option, at) => ({ label: option.label, apply: option.insert, boost: -at, ...(option.info ? { info: option.info } : {}) })),
    validFor: /^[\w.%-]*$/,
  };
}

/** The changed range only, so that the cursor does not move. */
function difference(before: string, after: string) {
  let from = 0;
  while (from < before.length && from < after.length && before[from] === after[from]) from++;
  let tail = 0;
  const limit = Math.min(before.length, after.length) - from;
  while (tail < limit && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  return { from, to: before.length - tail, insert: after.slice(from, after.length - tail) };
}
