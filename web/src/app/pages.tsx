// All pages. Each is loaded when it is first shown, from the default export of pages/<name>/index.tsx.
import { type ComponentType, lazy, type LazyExoticComponent } from "react";
import type { CommonKey } from "../i18n";
import type { Me } from "./permissions";
import { maySubmit } from "./permissions";

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
  component: Lazy;
  /** Not in the navigation; other pages link to it. */
  isHidden?: boolean;
  isFor?: (me: Me) => boolean;
}

const define = (name: string, path: string, icon: string, more: Partial<Page> = {}): Page => ({
  name, path, icon, title: `nav.${name}` as CommonKey, component: page(name), ...more,
});

export const BELL = "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4";

/** Icons are SVG paths in a 24 by 24 box, drawn as lines. */
export const PAGES: readonly Page[] = [
  define("cluster", "/", "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z"),
  define("queue", "/queue", "M4 6h16M4 12h16M4 18h10"),
  define("inbox", "/inbox", BELL),
  define("timeline", "/timeline", "M3 6h9M8 12h12M5 18h8M3 3v18"),
  define("job", "/jobs/:id", "M5 4h14v16H5z", { isHidden: true }),
  define("submit", "/submit", "M12 5v14M5 12h14", { isFor: maySubmit }),
  define("policy", "/policy", "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4"),
  define("interference", "/interference", "M3 12c3-8 6-8 9 0s6 8 9 0M3 12c3 8 6 8 9 0s6-8 9 0"),
  define("predictions", "/predictions", "M4 19V5M4 19h16M7 15l4-5 3 3 5-7"),
  define("admin", "/admin", "M12 3l7 3v6c0 4-3 7-7 9-4-2-7-5-7-9V6z"),
];
