// Words with the server of this page, and with nobody else.
export const tab = Math.random().toString(36).slice(2);

export async function post(what, body = {}) {
  const answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
}

export function upload(what, file, onprogress) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", what);
    request.upload.onprogress = (e) => { if (e.lengthComputable) onprogress(e.loaded, e.total); };
    request.onload = () => resolve(request.status < 400 ? null : request.responseText);
    request.onerror = () => resolve("the upload broke off.");
    request.send(file);
  });
}

export function listen(heard, lost) {
  const stream = new EventSource("events");
  stream.onmessage = (e) => heard(JSON.parse(e.data));
  stream.onerror = () => lost(stream.readyState === EventSource.CLOSED);
  stream.onopen = () => lost(null);
}
