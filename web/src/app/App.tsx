import { QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { startLive } from "../api/live";
import { makeQueries, useMe } from "../api/queries";
import { ApiError } from "../api/errors";
import { useT } from "../i18n";
import { ErrorBox } from "../ui/ErrorBox";
import { Loading } from "../ui/Loading";
import { Toasts } from "../ui/Toast";
import { Login } from "./Login";
import { useToken } from "./session";
import { Shell } from "./Shell";

export function App() {
  const token = useToken();
  useT(); // renders everything again when the language changes
  if (!token) return <Login />;
  return <LoggedIn key={token} />;
}

/** The dashboard for one token. Another token gets a new query cache, so data of another user is never shown. */
function LoggedIn() {
  const [queries] = useState(makeQueries);
  useEffect(() => startLive(queries), [queries]);
  return (
    <QueryClientProvider client={queries}>
      <Inside />
      <Toasts />
    </QueryClientProvider>
  );
}

function Inside() {
  const me = useMe();
  if (me.data) return <Shell me={me.data} />;
  if (me.error instanceof ApiError && me.error.status === 401) return null; // api/client.ts ends the session
  if (me.error) return <ErrorBox error={me.error} onRetry={() => void me.refetch()} />;
  return <Loading />;
}
