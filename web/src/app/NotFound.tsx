import { Link } from "wouter";
import { useT } from "../i18n";
import { Empty } from "../ui/Empty";
import { PageHead } from "../ui/PageHead";

export function NotFound() {
  const t = useT();
  return (
    <>
      <PageHead title="gpusquad" />
      <Empty text={t("common.notFound")} action={<Link href="/">{t("common.home")}</Link>} />
    </>
  );
}
