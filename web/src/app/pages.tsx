// All pages, each loaded when it is first shown. To build one: write pages/<name>/index.tsx with a default export.
import { type ComponentType, lazy, type LazyExoticComponent } from "react";
import type { CommonKey } from "../i18n";
import type { Me } from "./rights";
import { maySubmit } from "./rights";

type Lazy = LazyExoticComponent<ComponentType>;
const built = import.meta.glob<{ default: ComponentType }>("../pages/*/index.tsx");

function page(name: string): Lazy {
  return lazy(built[`../pages/${name}/index.tsx`] ?? (() => import("./NotBuilt")));
}

export interface Page {
  name: string;
  path: string;
  title: CommonKey;
  icon: string;
  part: Lazy;
  /** Not in the navigation: reached from other pages. */
  isHidden?: boolean;
  isFor?: (me: Me) => boolean;
}

const P = (name: string, path: string, icon: string, more: Partial<Page> = {}): Page => ({
  name, path, icon, title: `nav.${name}` as CommonKey, part: page(name), ...more,
});

/** Icons are paths in a box of 24 by 24, drawn as lines. */
export const PAGES: readonly Page[] = [
  P("cluster", "/", "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z"),
  P("queue", "/queue", "M4 6h16M4 12h16M4 18h10"),
  P("timeline", "/timeline", "M3 6h9M8 12h12M5 18h8M3 3v18"),
  P("job", "/jobs/:id", "M5 4h14v16H5z", { isHidden: true }),
  P("submit", "/submit", "M12 5v14M5 12h14", { isFor: maySubmit }),
  P("policy", "/policy", "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4"),
  P("interference", "/interference", "M3 12c3-8 6-8 9 0s6 8 9 0M3 12c3 8 6 8 9 0s6-8 9 0"),
  P("predictions", "/predictions", "M4 19V5M4 19h16M7 15l4-5 3 3 5-7"),
  P("admin", "/admin", "M12 3l7 3v6c0 4-3 7-7 9-4-2-7-5-7-9V6z"),
];
