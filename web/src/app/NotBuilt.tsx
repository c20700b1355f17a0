import { useLocation } from "wouter";
import { useT } from "../i18n";
import { Empty } from "../ui/Empty";
import { PageHead } from "../ui/PageHead";
import { PAGES } from "./pages";

export default function NotBuilt() {
  const t = useT();
  const [path] = useLocation();
  const page = PAGES.find((candidate) => candidate.path.split("/")[1] === path.split("/")[1]);
  return (
    <>
      <PageHead title={page ? t(page.title) : "gpusquad"} />
      <Empty text={t("common.notBuilt")} />
    </>
  );
}
