import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// While you work on it: `npm run dev` beside a running service; its address is GPUSQUAD_URL.
const service = process.env.GPUSQUAD_URL ?? "http://localhost:7070";

export default defineConfig({
  plugins: [react()],
  build: {
    // A build beside the usual one: the service and the tests look there too when the same variable says so.
    outDir: process.env.GPUSQUAD_WEB_FOLDER ?? "../src/gpusquad/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content policy allows files of ours, not data: in style sheets
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": service } },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
});
