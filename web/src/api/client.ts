import createClient from "openapi-fetch";
import { session } from "../app/session";
import { ApiError, errorInBody } from "./errors";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** Typed by the service's OpenAPI description. Use with `need`: `need(api.GET("/api/v1/nodes"))`. */
export const api = createClient<paths>({ baseUrl: location.origin });

api.use({
  onRequest({ request }) {
    const token = session.token();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
  onResponse({ response, request }) {
    // The token expired while the page was open. Ignored if another token has replaced it since.
    if (response.status === 401 && request.headers.get("Authorization") === `Bearer ${session.token()}`) session.end("ended");
    return response;
  },
});

interface ApiResult<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the data of a response, or throws an `ApiError`. */
export async function need<T>(request: Promise<ApiResult<T>>): Promise<T> {
  const { data, error, response } = await request;
  if (!response.ok) throw new ApiError(response.status, errorInBody(error));
  return data as T;
}
