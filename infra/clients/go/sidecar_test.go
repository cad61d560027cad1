package rescind

import (
	"net/http/httptest"
	"testing"
)

func TestTheSidecarAnswersAsTheService(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	ask := func(method, path string) (int, string, string) {
		answer := httptest.NewRecorder()
		Handler(client).ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		return answer.Code, answer.Body.String(), answer.Header().Get("Retry-After")
	}
	check := func(expectedStatus int, path, expectedBody, expectedRetry string) {
		t.Helper()
		status, body, retry := ask("GET", path)
		expect(t, []any{status, body, retry}, []any{expectedStatus, expectedBody, expectedRetry})
	}
	stale := `{"error":{"code":"stale","message":"the service has not responded yet"}}`
	check(503, checkPath+"?warrant_id=svc_wrt_b", stale, "1")
	if status, _, _ := ask("GET", "/readyz"); status != 503 {
		t.Error(status)
	}
	poll(client, noted)
	check(200, checkPath+"?warrant_id=svc_wrt_b", `{"warrant_id":"svc_wrt_b","revoked":false}`, "")
	check(200, checkPath+"?warrant_id=svc_wrt_a", `{"warrant_id":"svc_wrt_a","revoked":true}`, "")
	check(200, checkPath+"?token_kind=jwt&token_issuer=https%3A%2F%2Fas.example&token_value=bad-1",
		`{"warrant_id":"svc_wrt_jwt-Z591NNxgO_rGCEeX0rJ88TyihObU_zJQgZph8tqu5Io","revoked":false}`, "")
	subject := "?token_kind=jwt-subject&token_issuer=https%3A%2F%2Fas.example&token_value=ann"
	check(200, checkPath+subject+"&token_issued_before=7",
		`{"warrant_id":"svc_wrt_sub-NPswvoAsFgCt_TE51ZzQAywd3M4vkyz8D54NUtQRtFI-000000000007","revoked":false}`, "")
	if status, _, _ := ask("GET", "/readyz"); status != 200 {
		t.Error(status)
	}
	for _, wrong := range []string{"", "?warrant_id=", "?warrant_id=a&warrant_id=b", "?warrant_id=svc_wrt_", "?warrant_id=svc_wrt_%0a", "?warrant_id=svc_wrt_b;", "?warrant_id=svc_wrt_a&warrant_id=svc_wrt_b", "?warrant_id=svc_wrt_a&token_kind=other&token_value=a", "?token_kind=jwt&token_value=a", "?token_value=a", subject, subject + "&token_issued_before=-1", subject + "&token_issued_before=1.5"} {
		if status, _, _ := ask("GET", checkPath+wrong); status != 400 {
			t.Errorf("%s: %d", wrong, status)
		}
	}
	if status, _, _ := ask("POST", checkPath); status != 405 {
		t.Error(status)
	}
	if status, _, _ := ask("GET", "/"); status != 404 {
		t.Error(status)
	}
}
