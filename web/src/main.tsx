import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { session } from "./app/session";
import { openTheme } from "./app/theme";
import { openLanguage } from "./i18n";
import "./styles/tokens.css";
import "./styles/base.css";

session.open(location, history); // first: it takes a token out of the address
openTheme();
openLanguage();
createRoot(document.getElementById("root")!).render(<StrictMode><App /></StrictMode>);
