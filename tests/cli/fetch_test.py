#!/usr/bin/env python3
"""Which certificates a download trusts. A proxy stands for the server, so nothing leaves this machine.

    fetch_test.py LATHE [--sanitized]
"""
import pathlib
import shutil
import socket
import ssl
import subprocess
import threading

from driver import Skip, expect, lathe, main

HOST = "storage.googleapis.com"  # of MNIST


def serve(listener):
    """Answers each https request that comes through the proxy with 404, as HOST with the certificate of ca.pem."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("ca.pem", "key.pem")
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            try:
                assert connection.recv(4096).startswith(b"CONNECT " + HOST.encode())
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(4096)
                    secure.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            except OSError:  # the client does not trust it
                pass


def test_the_environment_names_the_file_of_certificates(folder):
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test",
                    "-addext", f"subjectAltName=DNS:{HOST}"], check=True, capture_output=True)
    pathlib.Path("root").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        proxy = {"https_proxy": f"http://127.0.0.1:{listener.getsockname()[1]}", "no_proxy": ""}
        fetch = ["data", "fetch", "mnist", "--data-root", "root"]
        result = expect(lathe(*fetch, env={**proxy, "SSL_CERT_FILE": "ca.pem"}), 3)
        assert "404" in result.stderr, result.stderr
        result = expect(lathe(*fetch, env={**proxy, "SSL_CERT_FILE": ""}), 3)
        assert "404" not in result.stderr and "certificate" in result.stderr, result.stderr


main(globals())
