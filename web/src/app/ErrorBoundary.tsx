import { Component, type ReactNode } from "react";
import { translate } from "../i18n";
import { Button } from "../ui/Button";
import { Empty } from "../ui/Empty";

/** Keeps the frame when a page throws. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    // The file of a page no longer exists if the service was updated while this tab was open.
    const isOld = /dynamically imported module|module script/i.test(error.message);
    return (
      <Empty
        text={translate(isOld ? "common.newVersion" : "common.crashed")} detail={isOld ? "" : error.message}
        action={<Button onClick={() => location.reload()}>{translate("common.reload")}</Button>}
      />
    );
  }
}
