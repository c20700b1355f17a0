import { type FormEvent, useState } from "react";
import { useT } from "../i18n";
import { Button } from "../ui/Button";
import styles from "./Login.module.css";
import { Logo } from "./Logo";
import { looksLikeToken, session } from "./session";
import { Settings } from "./Settings";

/** Asks for a token and checks it with the service before storing it. */
export function Login() {
  const t = useT();
  const [problem, setProblem] = useState(session.ending() === "ended" ? t("login.ended") : "");
  const [isBusy, setBusy] = useState(false);

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget).get("token") ?? "").trim();
    if (!looksLikeToken(token)) return setProblem(t("login.bad"));
    setBusy(true);
    setProblem(await refusal(token));
    setBusy(false);
  }

  async function refusal(token: string): Promise<string> {
    try {
      const response = await fetch("/api/v1/me", { headers: { Authorization: `Bearer ${token}` } });
      if (response.ok) session.start(token);
      return response.ok ? "" : t("login.refused");
    } catch {
      return t("common.offline");
    }
  }

  return (
    <main className={styles.page}>
      <form className={styles.box} onSubmit={submit}>
        <Logo />
        <h1>{t("login.title")}</h1>
        <p className={styles.lead}>{t("login.lead")}</p>
        <label className={styles.field}>
          {t("login.token")}
          <input
            name="token" type="password" autoComplete="off" spellCheck={false} autoFocus required
            aria-invalid={problem !== ""} aria-describedby="login-problem"
          />
        </label>
        <p id="login-problem" role="alert" className={styles.problem}>{problem}</p>
        <Button kind="primary" type="submit" disabled={isBusy}>{t("login.enter")}</Button>
        <p className={styles.how}>{t("login.how")} <code>cat ~/.gpusquad/token</code></p>
      </form>
      <Settings />
    </main>
  );
}
