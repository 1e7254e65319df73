/**
 * Shows an error instead of a blank page if the panel's script did not load. The service denies module
 * scripts to pages of another origin. A proxy that changes the Host header causes that. This script is no
 * module, so it still loads.
 */
const { root = '', texts } = JSON.parse(document.getElementById('start')!.textContent) as {
  root?: string
  texts: Readonly<Record<string, string>>
}

async function tell(): Promise<void> {
  const app = document.getElementById('app')!
  if (app.dataset.begun !== undefined) return
  // A POST carries the page's origin, as the request for the module script did.
  const { status } = await fetch(`${root}/api/status`, { method: 'POST' }).catch(() => ({ status: 0 }))
  const why = status === 403 ? 'unloaded.origin' : 'unloaded.network'
  const lines = ['unloaded.title', why].map((key, nth) => {
    const line = document.createElement(nth === 0 ? 'h1' : 'p')
    line.textContent = (texts[key] ?? key).replaceAll('{host}', location.host)
    return line
  })
  app.replaceChildren(...lines)
}
if (document.readyState === 'complete') void tell()
else addEventListener('load', () => void tell())

export {}
