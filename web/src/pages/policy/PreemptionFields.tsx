import { useTexts } from "../../i18n";
import { Field } from "../../ui/Field";
import type { Policy, Request } from "./queries";
import { text } from "./texts";

const BY = ["none", "priority", "order"] as const;
const OVERSTAY = ["never", "checkpointed", "always"] as const;
interface Props {
  request: Request;
  policy: Policy;
  onChange: (next: Partial<Request>) => void;
}

/** Who may preempt whom. Empty fields keep the value of the mode. */
export function PreemptionFields({ request, policy, onChange }: Props) {
  const t = useTexts(text);
  const now = request.preemption ?? {};
  const put = (next: Partial<NonNullable<Request["preemption"]>>) => {
    const given = Object.entries({ ...now, ...next }).filter(([, value]) => value !== undefined);
    onChange({ preemption: given.length > 0 ? Object.fromEntries(given) : undefined });
  };
  const lanes = request.preemptible ?? policy.lanes.filter((lane) => lane.preemptible).map((lane) => lane.name);
  return (
    <>
      <Field label={t("preemptBy")}>
        {(control) => (
          <select {...control} value={now.by ?? ""} onChange={(event) => put({ by: event.target.value || undefined })}>
            <option value="">{t("ofMode")}</option>
            {BY.map((name) => <option key={name} value={name}>{t(`by.${name}`)}</option>)}
          </select>
        )}
      </Field>
      {([["min_run_s", "minRun"], ["most_per_job", "mostPerJob"]] as const).map(([name, label]) => (
        <Field key={name} label={t(label)}>
          {(control) => (
            <input
              {...control} type="number" min={0} step={1} value={now[name] ?? ""} placeholder={t("ofMode")}
              onChange={(event) => put({ [name]: event.target.value === "" ? undefined : Number(event.target.value) })}
            />
          )}
        </Field>
      ))}
      <Field label={t("overstay")}>
        {(control) => (
          <select {...control} value={now.overstay ?? ""} onChange={(event) => put({ overstay: event.target.value || undefined })}>
            <option value="">{t("ofMode")}</option>
            {OVERSTAY.map((name) => <option key={name} value={name}>{t(`overstay.${name}`)}</option>)}
          </select>
        )}
      </Field>
      {policy.lanes.map(({ name }) => (
        <Field key={name} label={t("preemptibleLane", { name })}>
          {(control) => (
            <input
              {...control} type="checkbox" checked={lanes.includes(name)}
              onChange={(event) => onChange({ preemptible: event.target.checked ? [...lanes, name] : lanes.filter((other) => other !== name) })}
            />
          )}
        </Field>
      ))}
    </>
  );
}
