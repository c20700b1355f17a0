import { Component, type ReactNode } from "react";
import { t } from "../i18n";
import { Button } from "../ui/Button";
import { Empty } from "../ui/Empty";

/** One page that breaks does not take the frame with it. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    // A page's file is gone when the service was updated while this tab was open.
    const isOld = /dynamically imported module|module script/i.test(error.message);
    return (
      <Empty
        text={t(isOld ? "common.newVersion" : "common.crashed")} detail={isOld ? "" : error.message}
        action={<Button onClick={() => location.reload()}>{t("common.reload")}</Button>}
      />
    );
  }
}
