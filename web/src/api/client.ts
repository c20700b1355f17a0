import createClient from "openapi-fetch";
import { session } from "../app/session";
import { ApiError, toldIn } from "./errors";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** Typed by the service's own description. Use with `need`: `need(api.GET("/api/v1/nodes"))`. */
export const api = createClient<paths>({ baseUrl: location.origin });

api.use({
  onRequest({ request }) {
    const token = session.token();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
  onResponse({ response, request }) {
    // A token that ended while the page was open. One that was replaced in the meantime is not thrown away.
    if (response.status === 401 && request.headers.get("Authorization") === `Bearer ${session.token()}`) session.end("ended");
    return response;
  },
});

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer, or an `ApiError`. */
export async function need<T>(asked: Promise<Answered<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw new ApiError(response.status, toldIn(error));
  return data as T;
}
