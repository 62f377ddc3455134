// A real authorization server on loopback: oidc-provider with registration, revocation, introspection and rotation.
// node authorization_server.mjs PACKAGES PORT RESOURCES: the folder of its packages, and the resources, separated by commas.
// GET /control counts the requests for tokens by grant; POST /control sets `ttl`, `delay_ms`, `lying_issuer`.
import http from 'node:http'
import { pathToFileURL } from 'node:url'

const [packages, port, resources] = process.argv.slice(2)
const { default: Provider, errors } = await import(pathToFileURL(`${packages}/oidc-provider/lib/index.js`))
const issuer = `http://127.0.0.1:${port}`
const known = resources.split(',')
const control = { ttl: 3600, delay_ms: 0, delay_after: false, lying_issuer: '' }
const grants = {}
const registered = []
// The host of this document is the only one that is faked: the address has to be https.
const document_url = 'https://clients.example/codemode-server.json'
const client_document = {
  client_id: document_url,
  client_name: 'codemode-server',
  application_type: 'native',
  redirect_uris: ['http://127.0.0.1/callback'],
  grant_types: ['authorization_code', 'refresh_token'],
  token_endpoint_auth_method: 'none',
}

const provider = new Provider(issuer, {
  clients: [
    { client_id: 'protected-server', client_secret: 'introspection-secret', redirect_uris: [], response_types: [], grant_types: [] },
    { client_id: 'machine', client_secret: 'machine-secret-123', redirect_uris: [], response_types: [], grant_types: ['client_credentials'], token_endpoint_auth_method: 'client_secret_basic' },
    { client_id: 'by-hand', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'], grant_types: ['authorization_code', 'refresh_token'] },
  ],
  scopes: ['openid', 'offline_access', 'read', 'write'],
  clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
  features: {
    registration: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    revocation: { enabled: true },
    introspection: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo(_context, resource) {
        if (!known.includes(resource)) throw new errors.InvalidTarget()
        return { scope: 'read write', audience: resource, accessTokenFormat: 'opaque', accessTokenTTL: control.ttl }
      },
    },
  },
  fetch: (url, options) =>
    String(url) === document_url
      ? new Response(JSON.stringify(client_document), { headers: { 'content-type': 'application/json' } })
      : globalThis.fetch(url, options),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  pkce: { required: () => true },
})
provider.on('registration_create.success', (_context, client) => registered.push(client.clientId))
const answer = provider.callback()

async function controlled(request, response) {
  let body = ''
  for await (const piece of request) body += piece
  if (body) Object.assign(control, JSON.parse(body))
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ grants, registered }))
}

http.createServer(async (request, response) => {
  if (request.url === '/control') return controlled(request, response)
  if (request.url === '/token') {
    // The body is read here, and again by oidc-provider, which takes it from `request.body`.
    const pieces = []
    for await (const piece of request) pieces.push(piece)
    const form = new URLSearchParams(Buffer.concat(pieces).toString())
    request.body = Object.fromEntries(form)
    grants[form.get('grant_type')] = (grants[form.get('grant_type')] ?? 0) + 1
    if (control.delay_ms) {
      // The token is made before the delay: whoever is killed meanwhile has used its refresh token.
      const end = response.end.bind(response)
      response.end = (...rest) => { setTimeout(() => end(...rest), control.delay_ms); return response }
    }
  }
  if (request.url.startsWith('/.well-known/') && control.lying_issuer) {
    const end = response.end.bind(response)
    response.end = (body, ...rest) => {
      const changed = String(body).replace(`"issuer":"${issuer}"`, `"issuer":"${control.lying_issuer}"`)
      response.setHeader('content-length', Buffer.byteLength(changed))
      return end(changed, ...rest)
    }
  }
  answer(request, response)
}).listen(Number(port), '127.0.0.1', () => console.log('ready'))
