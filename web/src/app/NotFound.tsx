import { Link } from "wouter";
import { useT } from "../i18n";
import { Empty } from "../ui/Empty";
import { PageHead } from "../ui/PageHead";

export function NotFound() {
  const say = useT();
  return (
    <>
      <PageHead title="gpusquad" />
      <Empty text={say("common.notFound")} action={<Link href="/">{say("common.home")}</Link>} />
    </>
  );
}
