import { type FormEvent, useState } from "react";
import { useT } from "../i18n";
import { Button } from "../ui/Button";
import styles from "./Login.module.css";
import { Logo } from "./Logo";
import { looksLikeToken, session } from "./session";
import { Settings } from "./Settings";

/** A token, checked with the service before it is kept. */
export function Login() {
  const say = useT();
  const [problem, setProblem] = useState(session.ending() === "ended" ? say("login.ended") : "");
  const [isBusy, setBusy] = useState(false);

  async function enter(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget).get("token") ?? "").trim();
    if (!looksLikeToken(token)) return setProblem(say("login.bad"));
    setBusy(true);
    setProblem(await refusal(token));
    setBusy(false);
  }

  async function refusal(token: string): Promise<string> {
    try {
      const answer = await fetch("/api/v1/me", { headers: { Authorization: `Bearer ${token}` } });
      if (answer.ok) session.begin(token);
      return answer.ok ? "" : say("login.refused");
    } catch {
      return say("common.offline");
    }
  }

  return (
    <main className={styles.page}>
      <form className={styles.box} onSubmit={enter}>
        <Logo />
        <h1>{say("login.title")}</h1>
        <p className={styles.lead}>{say("login.lead")}</p>
        <label className={styles.field}>
          {say("login.token")}
          <input
            name="token" type="password" autoComplete="off" spellCheck={false} autoFocus required
            aria-invalid={problem !== ""} aria-describedby="login-problem"
          />
        </label>
        <p id="login-problem" role="alert" className={styles.problem}>{problem}</p>
        <Button kind="primary" type="submit" disabled={isBusy}>{say("login.enter")}</Button>
        <p className={styles.how}>{say("login.how")} <code>cat ~/.gpusquad/token</code></p>
      </form>
      <Settings />
    </main>
  );
}
