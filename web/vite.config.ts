import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// For development: `npm run dev` beside a running service, whose address is GPUSQUAD_URL.
const service = process.env.GPUSQUAD_URL ?? "http://localhost:7070";

export default defineConfig({
  plugins: [react()],
  build: {
    // Another output folder; the service and the tests read the same variable.
    outDir: process.env.GPUSQUAD_WEB_FOLDER ?? "../src/gpusquad/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy forbids data: URLs in style sheets
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": service } },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
});
