import { useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Panel } from "../../ui/Panel";
import { Cards } from "./Cards";
import { GoalsPanel } from "./GoalsPanel";
import { Now } from "./Now";
import styles from "./Policy.module.css";
import { usePolicy } from "./queries";
import { Revisions } from "./Revisions";
import { Switch } from "./Switch";
import { text } from "./texts";

export default function PolicyPage() {
  const t = useTexts(text);
  const me = useCurrentUser();
  const policy = usePolicy();
  return (
    <>
      <PageHead title={t("title")} />
      {policy.error && !policy.data && <ErrorBox error={policy.error} onRetry={() => void policy.refetch()} />}
      {policy.isPending && <Loading />}
      {policy.data && (
        <>
          <div className={styles.top}>
            <Now policy={policy.data} />
            {me.is_admin
              ? <Switch key={policy.data.revision} policy={policy.data} />
              : <Panel title={t("switch")}><p className={styles.since}>{t("onlyAdmin")}</p></Panel>}
          </div>
          <div className={styles.below}>
            <GoalsPanel />
            <Cards />
            <Revisions />
          </div>
        </>
      )}
    </>
  );
}
