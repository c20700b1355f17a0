import { useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { Field, Fields } from "../../ui/Field";
import { Segments } from "../../ui/Segments";
import { type Reading, valueAt, withField } from "./document";
import { type FormField, MAIN, MORE, type Part, partOf, pathOfField, RESOURCES, shownOf, valueOf, WHEN } from "./fields";
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
  const t = useTexts(text);
  const { yaml, reading, onYaml } = props;
  if (reading.faults.length > 0) return <p className={styles.note}>{t("notYaml")}</p>;
  const hasRoles = reading.data.roles !== undefined;
  const part = partOf(reading.data);
  return (
    <div className={styles.form}>
      <Fields>{MAIN.map((field) => <FormInput key={field.name} field={field} {...props} />)}</Fields>
      <fieldset className={styles.group}>
        <legend>{t("room")}</legend>
        {hasRoles ? <p className={styles.note}>{t("roles")}</p> : (
          <>
            <Segments
              label={t("part")} value={part} onChange={(next) => onYaml(withPart(yaml, next))}
              options={[["whole", t("part.whole")], ["share", t("part.share")], ["none", t("part.none")]]}
            />
            <Fields>
              {RESOURCES.filter((field) => !field.part || field.part === part).map((field) => <FormInput key={field.name} field={field} {...props} />)}
            </Fields>
          </>
        )}
      </fieldset>
      <fieldset className={styles.group}>
        <legend>{t("when")}</legend>
        <Fields>{WHEN.map((field) => <FormInput key={field.name} field={field} {...props} />)}</Fields>
      </fieldset>
      <Params {...props} />
      <details className={styles.more}>
        <summary>{t("more")}</summary>
        <Fields>{MORE.map((field) => <FormInput key={field.name} field={field} {...props} />)}</Fields>
      </details>
    </div>
  );
}

function FormInput({ field, yaml, reading, schema, errorAt, onYaml }: Props & { field: FormField }) {
  const t = useTexts(text);
  const me = useCurrentUser();
  if (field.isForAdmin && !me.is_admin) return null;
  const path = pathOfField(field.name);
  const shown = shownOf(valueAt(reading.data, path));
  const fieldSchema = schema && schemaAt(schema, path);
  const put = (typed: string) => onYaml(withField(yaml, path, valueOf(field.name, typed)));
  return (
    <Field label={t(`field.${field.name}`)} error={errorAt(path)} isWide={field.kind === "lines" || field.name === "name"}>
      {(control) => {
        if (shown === null) return <input {...control} value={t("inYaml")} readOnly />;
        if (field.kind === "lines")
          return <textarea {...control} rows={4} value={shown} spellCheck={false} onChange={(event) => put(event.target.value)} />;
        if (field.kind === "choice") return (
          <select {...control} value={shown} onChange={(event) => put(event.target.value)}>
            <option value="">{t("usual")}</option>
            {choices(fieldSchema, schema).map((choice) => <option key={choice}>{choice}</option>)}
          </select>
        );
        return (
          <input
            {...control} value={shown} autoComplete="off" spellCheck={false} placeholder={example(fieldSchema)}
            onChange={(event) => put(event.target.value)}
          />
        );
      }}
    </Field>
  );
}

/** Parameters of the job file, to be set for this submission. */
function Params({ reading, params, onParams }: Props) {
  const t = useTexts(text);
  const own = reading.data.params;
  if (!own || typeof own !== "object" || Array.isArray(own) || Object.keys(own).length === 0) return null;
  return (
    <fieldset className={styles.group}>
      <legend>{t("params")}</legend>
      <Fields>
        {Object.entries(own).map(([name, preset]) => (
          <Field key={name} label={name} hint={preset === null ? t("paramNeeded") : ""}>
            {(control) => (
              <input
                {...control} value={params[name] ?? ""} placeholder={preset === null ? "" : String(preset)} autoComplete="off"
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

function example(schema: Schema | null | undefined): string {
  const first = schema?.examples?.find((candidate) => typeof candidate !== "object");
  return first === undefined ? "" : String(first as Json);
}

function choices(schema: Schema | null | undefined, root: Schema | undefined): string[] {
  return schema && root ? branches(schema, root).flatMap((branch) => branch.enum ?? []).map(String) : [];
}
