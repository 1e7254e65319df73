/** QR codes as images. The package is loaded on use: logins and invitations are rare. */

/** Returns a QR code as an SVG image. */
export async function drawQrSvg(text: string): Promise<string> {
  const { toString: draw } = await import('qrcode')
  return draw(text, { type: 'svg', errorCorrectionLevel: 'L', margin: 2 })
}

/** Returns a QR code as a PNG image, in base64. */
export async function drawQrPng(text: string): Promise<string> {
  const { toBuffer: draw } = await import('qrcode')
  return (await draw(text, { type: 'png', margin: 3, scale: 6 })).toString('base64')
}
