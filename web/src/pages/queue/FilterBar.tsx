import { type CommonKey, useT, useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import styles from "./Queue.module.css";
import type { Filter } from "./rows";
import { text } from "./texts";

const STATES = ["pending", "held", "starting", "running", "preempting", "stopping", "lost"] as const;

interface Props {
  filter: Filter;
  onChange: (next: Filter) => void;
  tenants: readonly string[];
  me: string;
  shown: string;
  counts: Record<string, number> | undefined;
}

export function FilterBar({ filter, onChange, tenants, me, shown, counts }: Props) {
  const t = useTexts(text);
  const common = useT();
  return (
    <div className={styles.tools} role="search">
      <input
        type="search" value={filter.text} placeholder={t("search")} aria-label={t("search")}
        onChange={(event) => onChange({ ...filter, text: event.target.value })}
      />
      <select aria-label={t("state")} value={filter.state} onChange={(event) => onChange({ ...filter, state: event.target.value })}>
        <option value="">{t("state")}: {common("common.all")}</option>
        {STATES.map((state) => (
          <option key={state} value={state}>{common(`state.${state}` as CommonKey)} ({count(counts?.[state] ?? 0)})</option>
        ))}
      </select>
      {tenants.length > 1 && (
        <select aria-label={t("tenant")} value={filter.tenant} onChange={(event) => onChange({ ...filter, tenant: event.target.value })}>
          <option value="">{t("tenant")}: {common("common.all")}</option>
          {tenants.map((tenant) => <option key={tenant}>{tenant}</option>)}
        </select>
      )}
      <label className={styles.mine}>
        <input
          type="checkbox" checked={filter.user !== ""}
          onChange={(event) => onChange({ ...filter, user: event.target.checked ? me : "" })}
        />
        {t("onlyMine")}
      </label>
      <span className={styles.shown} role="status">{shown}</span>
    </div>
  );
}
