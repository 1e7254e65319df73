/**
 * Says what is wrong where the panel's script did not load, in place of a blank page. A service refuses scripts of modules to
 * pages of another origin than its own, which a proxy makes of them that changes the Host; this one is no module.
 */
const { root = '', texts } = JSON.parse(document.getElementById('start')!.textContent) as {
  root?: string
  texts: Readonly<Record<string, string>>
}

async function tell(): Promise<void> {
  const app = document.getElementById('app')!
  if (app.dataset.begun !== undefined) return
  // A POST says where its page is from, as the script did.
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
