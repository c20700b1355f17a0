// Parser of server-sent events. The browser's EventSource cannot send an Authorization header.

export interface Message {
  id: string;
  event: string;
  data: string;
}

/** Takes text in chunks of any size. Returns complete messages and buffers the rest. */
export class Messages {
  #rest = "";

  take(text: string): Message[] {
    this.#rest += text.replaceAll("\r\n", "\n");
    const blocks = this.#rest.split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.map(parse).filter((message) => message.data !== "");
  }
}

function parse(block: string): Message {
  const message: Message = { id: "", event: "", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment: a heartbeat
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") message.id = value;
    else if (name === "event") message.event = value;
    else if (name === "data") message.data += (message.data ? "\n" : "") + value;
  }
  return message;
}
