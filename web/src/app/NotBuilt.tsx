import { useLocation } from "wouter";
import { useT } from "../i18n";
import { Empty } from "../ui/Empty";
import { PageHead } from "../ui/PageHead";
import { PAGES } from "./pages";

export default function NotBuilt() {
  const say = useT();
  const [path] = useLocation();
  const page = PAGES.find((one) => one.path.split("/")[1] === path.split("/")[1]);
  return (
    <>
      <PageHead title={page ? say(page.title) : "gpusquad"} />
      <Empty text={say("common.notBuilt")} />
    </>
  );
}
