import { useWho } from "../../app/rights";
import { useTexts } from "../../i18n";
import { Field, Fields } from "../../ui/Field";
import { Segments } from "../../ui/Segments";
import { type Reading, valueAt, withField } from "./document";
import { type FormField, MAIN, MORE, type Part, partOf, pathOfField, ROOM, shownOf, valueOf, WHEN } from "./fields";
import { type Json, type Path, type Schema, branches, schemaAt } from "./schema";
import styles from "./Submit.module.css";
import { text } from "./texts";

interface Props {
  yaml: string;
  reading: Reading;
  schema: Schema | undefined;
  errorAt: (path: Path) => string;
  params: Record<string, string>;
  onYaml: (yaml: string) => void;
  onParams: (params: Record<string, string>) => void;
}

export function JobForm(props: Props) {
  const say = useTexts(text);
  const { yaml, reading, onYaml } = props;
  if (reading.faults.length > 0) return <p className={styles.note}>{say("notYaml")}</p>;
  const hasRoles = reading.data.roles !== undefined;
  const part = partOf(reading.data);
  return (
    <div className={styles.form}>
      <Fields>{MAIN.map((one) => <FormInput key={one.name} field={one} {...props} />)}</Fields>
      <fieldset className={styles.group}>
        <legend>{say("room")}</legend>
        {hasRoles ? <p className={styles.note}>{say("roles")}</p> : (
          <>
            <Segments
              label={say("part")} value={part} onChange={(next) => onYaml(withPart(yaml, next))}
              options={[["whole", say("part.whole")], ["share", say("part.share")], ["none", say("part.none")]]}
            />
            <Fields>
              {ROOM.filter((one) => !one.part || one.part === part).map((one) => <FormInput key={one.name} field={one} {...props} />)}
            </Fields>
          </>
        )}
      </fieldset>
      <fieldset className={styles.group}>
        <legend>{say("when")}</legend>
        <Fields>{WHEN.map((one) => <FormInput key={one.name} field={one} {...props} />)}</Fields>
      </fieldset>
      <Params {...props} />
      <details className={styles.more}>
        <summary>{say("more")}</summary>
        <Fields>{MORE.map((one) => <FormInput key={one.name} field={one} {...props} />)}</Fields>
      </details>
    </div>
  );
}

function FormInput({ field, yaml, reading, schema, errorAt, onYaml }: Props & { field: FormField }) {
  const say = useTexts(text);
  const me = useWho();
  if (field.isForAdmin && !me.is_admin) return null;
  const path = pathOfField(field.name);
  const shown = shownOf(valueAt(reading.data, path));
  const of = schema && schemaAt(schema, path);
  const put = (typed: string) => onYaml(withField(yaml, path, valueOf(field.name, typed)));
  return (
    <Field label={say(`field.${field.name}`)} error={errorAt(path)} isWide={field.kind === "lines" || field.name === "name"}>
      {(given) => {
        if (shown === null) return <input {...given} value={say("inYaml")} readOnly />;
        if (field.kind === "lines")
          return <textarea {...given} rows={4} value={shown} spellCheck={false} onChange={(event) => put(event.target.value)} />;
        if (field.kind === "choice") return (
          <select {...given} value={shown} onChange={(event) => put(event.target.value)}>
            <option value="">{say("usual")}</option>
            {choices(of, schema).map((one) => <option key={one}>{one}</option>)}
          </select>
        );
        return (
          <input
            {...given} value={shown} autoComplete="off" spellCheck={false} placeholder={example(of)}
            onChange={(event) => put(event.target.value)}
          />
        );
      }}
    </Field>
  );
}

/** What the file leaves open, to be filled in for this submission. */
function Params({ reading, params, onParams }: Props) {
  const say = useTexts(text);
  const own = reading.data.params;
  if (!own || typeof own !== "object" || Array.isArray(own) || Object.keys(own).length === 0) return null;
  return (
    <fieldset className={styles.group}>
      <legend>{say("params")}</legend>
      <Fields>
        {Object.entries(own).map(([name, usual]) => (
          <Field key={name} label={name} hint={usual === null ? say("paramNeeded") : ""}>
            {(given) => (
              <input
                {...given} value={params[name] ?? ""} placeholder={usual === null ? "" : String(usual)} autoComplete="off"
                onChange={(event) => onParams({ ...params, [name]: event.target.value })}
              />
            )}
          </Field>
        ))}
      </Fields>
    </fieldset>
  );
}

function withPart(yaml: string, part: Part): string {
  const bare = withField(withField(withField(yaml, ["share"], undefined), ["gpus"], undefined), ["gpu_model"], undefined);
  if (part === "whole") return withField(bare, ["gpus"], 1);
  if (part === "share") return withField(withField(bare, ["share", "memory"], "10GiB"), ["share", "sm"], "25%");
  return withField(bare, ["cpu"], 1);
}

function example(of: Schema | null | undefined): string {
  const first = of?.examples?.find((one) => typeof one !== "object");
  return first === undefined ? "" : String(first as Json);
}

function choices(of: Schema | null | undefined, root: Schema | undefined): string[] {
  return of && root ? branches(of, root).flatMap((one) => one.enum ?? []).map(String) : [];
}
