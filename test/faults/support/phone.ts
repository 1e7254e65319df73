/** The simulated phone of a sandbox that runs in another process. */
import type { Json } from '../../support/service.ts'

export interface Phone {
  post<T = Json>(path: string, body?: unknown): Promise<T>
  get<T = Json>(path: string): Promise<T>
}

/** @param url address of the sandbox */
export function phoneAt(url: string): Phone {
  const request = async (path: string, init: RequestInit) => {
    const response = await fetch(`${url}/phone/${path}`, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`phone ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
  return {
    post: (path, body) =>
      request(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body ?? {}),
      }),
    get: path => request(path, {}),
  }
}
