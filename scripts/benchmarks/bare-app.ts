/** Baseline of `binary`: the smallest Elysia app, compiled with the flags of svc. */
import { Elysia } from 'elysia'

const app = new Elysia().get('/healthz', () => 'hello').listen({ hostname: '127.0.0.1', port: 0 })
console.log(`listening on http://127.0.0.1:${app.server?.port}`)
