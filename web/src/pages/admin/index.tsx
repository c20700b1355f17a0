import { useState } from "react";
import { useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { Audit } from "./Audit";
import { Tenants } from "./Tenants";
import { text } from "./texts";
import { Tokens } from "./Tokens";
import { Users } from "./Users";

type Part = "tenants" | "users" | "tokens" | "audit";

/** Users who are not administrators see their own tenant, its users and their own tokens. */
export default function AdminPage() {
  const t = useTexts(text);
  const me = useCurrentUser();
  const [part, setPart] = useState<Part>(me.is_admin ? "tenants" : "tokens");
  const parts: Part[] = me.is_admin ? ["tenants", "users", "tokens", "audit"] : ["tenants", "users", "tokens"];
  return (
    <>
      <PageHead title={t("title")}>
        <Segments label={t("parts")} value={part} options={parts.map((option) => [option, t(option)] as const)} onChange={setPart} />
      </PageHead>
      {part === "tenants" && <Tenants />}
      {part === "users" && <Users />}
      {part === "tokens" && <Tokens />}
      {part === "audit" && <Audit />}
    </>
  );
}
