// Server-sent events, taken apart. The browser's own EventSource cannot send an Authorization header.

export interface Message {
  id: string;
  event: string;
  data: string;
}

/** Feed it text as it comes; it hands on whole messages and keeps what is not finished. */
export class Messages {
  #rest = "";

  take(text: string): Message[] {
    this.#rest += text.replaceAll("\r\n", "\n");
    const parts = this.#rest.split("\n\n");
    this.#rest = parts.pop() ?? "";
    return parts.map(parsed).filter((message) => message.data !== "");
  }
}

function parsed(part: string): Message {
  const message: Message = { id: "", event: "", data: "" };
  for (const line of part.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment: a sign of life
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") message.id = value;
    else if (name === "event") message.event = value;
    else if (name === "data") message.data += (message.data ? "\n" : "") + value;
  }
  return message;
}
