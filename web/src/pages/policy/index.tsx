import { useWho } from "../../app/rights";
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
  const say = useTexts(text);
  const me = useWho();
  const policy = usePolicy();
  return (
    <>
      <PageHead title={say("title")} />
      {policy.error && !policy.data && <ErrorBox error={policy.error} onRetry={() => void policy.refetch()} />}
      {policy.isPending && <Loading />}
      {policy.data && (
        <>
          <div className={styles.top}>
            <Now policy={policy.data} />
            {me.is_admin
              ? <Switch key={policy.data.revision} policy={policy.data} />
              : <Panel title={say("switch")}><p className={styles.since}>{say("onlyAdmin")}</p></Panel>}
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
