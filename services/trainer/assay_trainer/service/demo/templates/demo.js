
function tell(message, isBad) {
  const told = document.querySelector("#told");
  told.hidden = false;
  told.classList.toggle("bad", isBad);
  told.textContent = message;
}

// Only this page knows the token: no other site's page can send it.
async function send(path, token, body) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.ok) return answer;
  const { error } = await answer.json();
  throw new Error(error.hint ? `${error.message} (${error.hint})` : error.message);
}

for (const button of document.querySelectorAll("[data-kill]")) {
  button.addEventListener("click", async () => {
    try {
      const answer = await send(`/demo/kills/${encodeURIComponent(button.dataset.kill)}`, button.parentElement.dataset.token, {});
      const { name, pid } = await answer.json();
      tell(`${name}, process ${pid}, was killed. It starts again.`, false);
    } catch (error) {
      tell(error.message, true);
    }
  });
}

const ask = document.querySelector("#ask");
ask?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(ask);
  tell("Both policies answer.", false);
  try {
    const answer = await send("/demo/answers", ask.dataset.token, { prompt: given.get("prompt"), task: given.get("task") });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("#answers").replaceChildren(...found.body.childNodes);
    document.querySelector("#told").hidden = true;
  } catch (error) {
    tell(error.message, true);
  }
});
