"""Clicks are predicted from features of users that two loader processes look up in a store, key by key."""

import socket
import struct
import subprocess
import sys

import stage
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
WIDTH = 256
# The store runs on another machine: an answer takes 20 ms.
STORE = """
import socket, struct, sys, threading, time
def serve(client):
    while True:
        key = client.recv(8)
        if len(key) < 8:
            return
        time.sleep(0.02)
        client.sendall(struct.pack("<256f", *[(struct.unpack("<q", key)[0] * k % 97) / 97 for k in range(256)]))
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""


class Client:
    """One connection for each process that looks something up."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def get(self, user):
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.sendall(struct.pack("<q", user))
        answer = b""
        while len(answer) < 4 * WIDTH:
            answer += self.connection.recv(4 * WIDTH - len(answer))
        return answer


class Impressions(Dataset):
    def __init__(self, client, users):
        self.client, self.users = client, users

    def __len__(self):
        return len(self.users)

    def __getitem__(self, index):
        user = self.users[index]
        features = torch.frombuffer(bytearray(self.client.get(user)), dtype=torch.float32)
        return features, torch.tensor(float(user % 3 == 0))


def train(port):
    users = torch.randint(1 << 40, (800,), generator=torch.Generator().manual_seed(4)).tolist()
    loader = DataLoader(Impressions(Client(port), users), batch_size=8, num_workers=2, prefetch_factor=4)
    model = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adagrad(model.parameters())
    for features, clicked in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(features)[:, 0], clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stage.work(0.015, sm=80)


store = subprocess.Popen([sys.executable, "-I", "-S", "-c", STORE], stdout=subprocess.PIPE, text=True)
try:
    train(int(store.stdout.readline()))
finally:
    store.kill()
